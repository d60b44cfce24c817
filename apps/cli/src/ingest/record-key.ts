import { hash } from 'node:crypto';

/**
 * The idempotency key of a record: what has arrived is not stored twice, and what has changed since, or stands
 * in another place, is another record.
 * @param prefix Sets a load apart from others that send the same.
 * @param place The record's line, or its number in an array, from 1.
 */
export function recordKey(prefix: string, place: number, payload: object): string {
  return `${prefix}-${place}-${hash('sha256', JSON.stringify(payload))}`;
}
