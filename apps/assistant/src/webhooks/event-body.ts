import { parseProviderJson, readProviderId } from '../identity/index.ts';

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
    userId: readProviderId(event['user_id']) ?? readProviderId(data['user_id']) ?? null,
    eventId: readProviderId(event['event_id']) ?? null,
  };
}

function parse(body: Uint8Array): unknown {
  try {
    return parseProviderJson(new TextDecoder('utf-8', { fatal: true }).decode(body));
  } catch {
    return undefined;
  }
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
