import { type Kysely, sql } from 'kysely';
import type { Tables } from '../tables.ts';
import type { AuditAction } from './actions.ts';

/** Further facts about what was done, none of them secret. */
export type AuditDetails = Readonly<Record<string, string | number | boolean | null>>;

/** One line of the trail. */
export type AuditEntry = {
  action: AuditAction;
  /** Who did it; null for the provider, for the operator's command, and for who is not known. */
  actorId: string | null;
  /** Whose data or sign-in it was; null where it was everybody's, or nobody's that is known. */
  userId: string | null;
  details?: AuditDetails;
};

/**
 * Adds a line to the audit trail. What must not happen unnoticed is recorded in the same transaction,
 * or before it is answered.
 */
export async function recordAudit(
  db: Kysely<Tables>,
  { action, actorId, userId, details = {} }: AuditEntry,
): Promise<void> {
  await db
    .insertInto('audit_log')
    .values({
      action,
      actor_id: actorId,
      user_id: userId,
      details: sql<string>`${JSON.stringify(details)}::jsonb`,
    })
    .execute();
}
