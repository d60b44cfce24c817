import { isStorable } from '../../text.ts';

/** An OpenID subject has 255 characters at most. OpenID Connect Core §2. */
const MAX_CHARACTERS = 255;

const INTEGER = /^-?\d{1,255}$/;

/**
 * Parses JSON of the provider with integers as bigints: a number beyond 2^53 would be rounded to the id of another
 * user.
 * @throws SyntaxError
 */
export function parseProviderJson(text: string): unknown {
  return JSON.parse(text, exactInteger);
}

/** The types of TypeScript lack the third parameter of revivers. */
function exactInteger(_key: string, value: unknown, context?: { source?: string }): unknown {
  const source = context?.source ?? '';
  return typeof value === 'number' && INTEGER.test(source) ? BigInt(source) : value;
}

/**
 * Reads an id that the provider sent: a string, or an integer of `parseProviderJson`, since some providers number
 * their users.
 * @returns The id as text; undefined when the value is neither or cannot be stored.
 */
export function readProviderId(value: unknown): string | undefined {
  const id = typeof value === 'bigint' ? value.toString() : value;
  return isStorable(id, MAX_CHARACTERS) ? id : undefined;
}
