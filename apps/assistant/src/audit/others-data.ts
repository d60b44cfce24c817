import type { Kysely } from 'kysely';
import type { Tables } from '../tables.ts';
import { type AuditDetails, recordAudit } from './record.sql.ts';

/**
 * Records that somebody reads or changes what is not theirs; what is their own is nobody's business.
 * It comes before the answer, or in the transaction of the change.
 * @param ownerId Whose it is: null for what has no owner, or where it is several people's.
 */
export async function recordOthersData(
  db: Kysely<Tables>,
  action: 'others_data_read' | 'others_data_changed',
  { actorId, ownerId, details }: { actorId: string; ownerId: string | null; details: AuditDetails },
): Promise<void> {
  if (ownerId === actorId) return;
  await recordAudit(db, { action, actorId, userId: ownerId, details });
}
