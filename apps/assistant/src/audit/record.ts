import { type Kysely, sql } from 'kysely';
import type { Tables } from '../tables.ts';

/** Everything that the audit trail tells of. Contract 3, Further endpoints. */
export const auditActions = [
  /** Somebody signed in, out, or ended another sign-in of their own. */
  'signed_in',
  'signed_out',
  'sign_in_ended',
  /** All sign-ins of a user, or of everybody, were ended: by an admin, or by the provider's webhook. */
  'sign_ins_ended',
  /** The provider rejected the tokens of a session, which ended with that. */
  'session_rejected',
  /** A sign-in that began here came back from the provider, and came to nothing. */
  'sign_in_failed',
  /** The cached role changed: at the provider, by its webhook, or by an admin. */
  'role_changed',
  'access_cleared',
  /** Data without an owner got one. */
  'legacy_assigned',
  /** Somebody read or changed what is another's. */
  'others_data_read',
  'others_data_changed',
  /** Somebody took all of their own data along, or had it deleted. */
  'own_data_exported',
  'own_data_deleted',
  /** Somebody asked for another availability of a profile, which its file decides. */
  'profile_availability_asked',
] as const;

export type AuditAction = (typeof auditActions)[number];

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
