import { type Kysely, sql, type Transaction } from 'kysely';
import type { Sweep } from '../upkeep.ts';
import type { Tables } from '../tables.ts';
import type { SignatureForm } from './signature.ts';

/** A webhook that was accepted, as the ledger keeps it. Contract 3, Webhooks. */
export type LedgerRow = {
  id: number;
  received_at: Date;
  delivery_id: string | null;
  signature: SignatureForm | 'logout_token';
  event: string | null;
  user_id: string | null;
  outcome: 'applied' | 'ignored';
  sessions_ended: number;
  body_sha256: string;
};

/**
 * Adds a webhook to the ledger. Of deliveries with one id, however many processes get them at the same
 * moment, one is added; the others wait until that one's transaction has ended.
 * @returns The row's id; nothing where the delivery is there already.
 */
export async function addWebhook(
  trx: Transaction<Tables>,
  webhook: Omit<LedgerRow, 'id' | 'received_at' | 'sessions_ended'>,
): Promise<number | undefined> {
  const row = await trx
    .insertInto('webhook_events')
    .values(webhook)
    .onConflict((conflict) => conflict.column('delivery_id').doNothing())
    .returning('id')
    .executeTakeFirst();
  return row?.id;
}

/** Notes in the ledger how many sessions a webhook ended. */
export async function noteSessionsEnded(
  trx: Transaction<Tables>,
  id: number,
  sessionsEnded: number,
): Promise<void> {
  await trx
    .updateTable('webhook_events')
    .set({ sessions_ended: sessionsEnded })
    .where('id', '=', id)
    .execute();
}

/** Deletes rows that are older than the ledger is kept. */
export const sweepWebhooks =
  (retentionDays: number): Sweep =>
  (limit) =>
    sql`
    delete from webhook_events where id in (
      select id from webhook_events
      where received_at < now() - make_interval(days => ${retentionDays})
      limit ${limit} for update skip locked
    )`;

/** The ledger, newest first. @param before The id of the last row of the page before. */
export function listWebhooks(
  db: Kysely<Tables>,
  { before, limit }: { before: number | undefined; limit: number },
): Promise<LedgerRow[]> {
  let query = db.selectFrom('webhook_events').selectAll().orderBy('id', 'desc').limit(limit);
  if (before !== undefined) query = query.where('id', '<', before);
  return query.execute();
}
