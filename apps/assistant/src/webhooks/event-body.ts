/** A webhook's body, as far as it is used. */
export type WebhookEvent = {
  /** What the event calls itself; null where it does not. */
  name: string | null;
  userId: string | null;
  /** Where the provider numbers its events in the body. */
  eventId: string | null;
};

/** Longer than any event's name; what only the ledger shows need not be kept whole. */
const MAX_NAME = 100;

/** An OpenID subject has 255 characters at most. OpenID Connect Core §2. */
const MAX_ID = 255;

/**
 * Reads the body of a webhook: `{event | type, user_id | data.user_id, event_id}`, the last form of
 * `user_id` being where Standard Webhooks puts it. What is not of its kind counts as missing.
 * Contract 3, Webhooks.
 * @returns Nothing where the body is not a JSON object in UTF-8.
 */
export function readEvent(body: Uint8Array): WebhookEvent | undefined {
  const event = parse(body);
  if (!isObject(event)) return undefined;
  const data = isObject(event['data']) ? event['data'] : {};
  return {
    name: readName(event['event']) ?? readName(event['type']),
    userId: readId(event['user_id']) ?? readId(data['user_id']),
    eventId: readId(event['event_id']),
  };
}

function parse(body: Uint8Array): unknown {
  try {
    return JSON.parse(new TextDecoder('utf-8', { fatal: true }).decode(body), exactInteger);
  } catch {
    return undefined;
  }
}

const INTEGER = /^-?\d{1,255}$/;

/**
 * Keeps an integer as exact as it was written: a number beyond 2^53 would be rounded, and so become
 * the number of another user. TypeScript does not know yet that revivers are given the source.
 */
function exactInteger(_key: string, value: unknown, context?: { source?: string }): unknown {
  const source = context?.source ?? '';
  return typeof value === 'number' && INTEGER.test(source) ? BigInt(source) : value;
}

function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

function readName(value: unknown): string | null {
  if (typeof value !== 'string' || value === '') return null;
  return storable(value.slice(0, MAX_NAME));
}

/** PostgreSQL stores no NUL. One taken out could make a known name of an unknown one. */
function storable(text: string): string {
  return text.replaceAll('\u0000', '\ufffd').toWellFormed();
}

/** A text, or an integer: some providers number their users. */
function readId(value: unknown): string | null {
  const id = typeof value === 'bigint' ? value.toString() : value;
  if (typeof id !== 'string' || id === '' || id.length > MAX_ID) return null;
  return storable(id) === id ? id : null;
}
