import { hash } from 'node:crypto';

/**
 * The idempotency key of a record: what has arrived is not stored twice, and what has changed since, or stands
 * in another place, is another record.
 * @param prefix Sets a load apart from others that send the same.
 * @param line The record's place, from 1.
 */
export function recordKey(prefix: string, line: number, payload: object): string {
  return `${prefix}-${line}-${hash('sha256', JSON.stringify(payload))}`;
}
