import { hash } from 'node:crypto';
import { retryConflicts } from '@oselya/db';
import { type Kysely, type Selectable, sql, type Transaction } from 'kysely';
import { Counter, type Registry } from 'prom-client';
import { recordAudit } from '../admin/audit.ts';
import type { IdentityMetrics } from '../identity/metrics.ts';
import { parseProviderJson, readProviderId } from '../identity/provider/user-data.ts';
import {
  clearAccess,
  endAllSessions,
  endProviderSession,
  endUserSessions,
  type ProviderSession,
} from '../identity/revocation.ts';
import type { Tables } from '../tables.ts';
import type { Sweep } from '../upkeep.ts';
import type { VerifiedSignature } from './signature.ts';

/** Parsed webhook body. Missing and malformed members are null. */
type WebhookEvent = { name: string | null; userId: string | null; eventId: string | null };

const MAX_NAME_LENGTH = 100;

/**
 * Parses the body of a webhook: `{event | type, user_id | data.user_id, event_id}`. Standard Webhooks have
 * `data.user_id`. Contract 3, Webhooks.
 * @returns Undefined if the body is not a JSON object in UTF-8.
 */
export function parseEvent(body: Uint8Array): WebhookEvent | undefined {
  let event: unknown;
  try {
    event = parseProviderJson(new TextDecoder('utf-8', { fatal: true }).decode(body));
  } catch {
    return undefined;
  }
  if (typeof event !== 'object' || event === null || Array.isArray(event)) return undefined;
  const { event: name, type, data, ...idFields } = event as Record<string, unknown>;
  return {
    name: readName(name) ?? readName(type),
    userId: readProviderId(idFields['user_id']) ?? readProviderId(Object(data).user_id) ?? null,
    eventId: readProviderId(idFields['event_id']) ?? null,
  };
}

/** Reads an event name. Replaces NUL characters, because their removal could turn an unknown name into a known one. */
function readName(value: unknown): string | null {
  if (typeof value !== 'string' || value === '') return null;
  return value.slice(0, MAX_NAME_LENGTH).replaceAll('\u0000', '\ufffd').toWellFormed();
}

/** Effects by event name. Specification 000, Events; Contract 3, Webhooks. */
const EFFECTS_BY_EVENT: ReadonlyMap<string, 'end_sessions' | 'end_all_sessions' | 'clear_access'> =
  new Map([
    ['user.blocked', 'end_sessions'],
    ['user.archived', 'end_sessions'],
    ['user.deleted', 'end_sessions'],
    ['session.revoked', 'end_sessions'],
    ['auth.global_logout', 'end_all_sessions'],
    ['client.roles_changed', 'clear_access'],
    ['client.permissions_changed', 'clear_access'],
  ] as const);

/** Event name of logout tokens in the ledger and in the metrics. */
const BACKCHANNEL_LOGOUT = 'backchannel_logout';

type AffectedUsers = { userId: string } | 'all-users';
type Effect =
  | { shouldEndSessions: false; subject: AffectedUsers }
  | { shouldEndSessions: true; subject: AffectedUsers | ProviderSession };

/**
 * Resolves the effect of an event. Events for other clients also invalidate the cached access, which costs only a
 * refetch.
 */
function resolveEffect({ name, userId }: WebhookEvent): Effect | undefined {
  const effect = EFFECTS_BY_EVENT.get(name ?? '');
  if (effect === 'end_all_sessions') return { shouldEndSessions: true, subject: 'all-users' };
  if (effect === 'clear_access') {
    return { shouldEndSessions: false, subject: userId === null ? 'all-users' : { userId } };
  }
  if (effect === undefined || userId === null) return undefined;
  return { shouldEndSessions: true, subject: { userId } };
}

type LedgerRow = Selectable<Tables['webhook_events']>;

/** Result of an event. The outcome is `user_missing` if the event should end the sessions of a user but names none. */
export type Receipt = {
  outcome: 'applied' | 'ignored' | 'user_missing' | 'duplicate';
  event: string | null;
  userId: string | null;
  sessionsEnded: number;
};

export type EventReceiver = ReturnType<typeof createEventReceiver>;

/**
 * Creates the receiver of verified events. One transaction contains the effect, the ledger row and the audit entry, so
 * the provider can retry a failed delivery. Contract 3, Webhooks.
 */
export function createEventReceiver({
  db,
  registry,
  metrics,
}: {
  db: Kysely<Tables>;
  registry: Registry;
  metrics: IdentityMetrics;
}) {
  const webhookCounter = new Counter({
    name: 'assistant_webhooks_total',
    help: 'Webhooks and logout tokens of the identity provider, by event and outcome.',
    labelNames: ['event', 'outcome'],
    registers: [registry],
  });

  async function receive(
    event: {
      /** An event has no effect if the ledger contains its delivery ID. */
      deliveryId: string | null;
      signature: LedgerRow['signature'];
      name: string | null;
      userId: string | null;
      body: Uint8Array | string;
    },
    effect: Effect | undefined,
  ): Promise<Receipt> {
    const { deliveryId, signature, name, userId, body } = event;
    const receipt = { event: name, userId, sessionsEnded: 0 };
    const outcome = effect === undefined ? 'ignored' : 'applied';
    const applyOnce = async (trx: Transaction<Tables>): Promise<Receipt> => {
      // A concurrent delivery with the same ID waits here until this transaction ends.
      const row = await trx
        .insertInto('webhook_events')
        .values({
          delivery_id: deliveryId,
          signature,
          event: name,
          user_id: userId,
          outcome,
          body_sha256: hash('sha256', body),
        })
        .onConflict((conflict) => conflict.column('delivery_id').doNothing())
        .returning('id')
        .executeTakeFirst();
      if (row === undefined) return { ...receipt, outcome: 'duplicate' };
      if (effect === undefined) {
        return {
          ...receipt,
          outcome: EFFECTS_BY_EVENT.has(name ?? '') ? 'user_missing' : 'ignored',
        };
      }
      const sessionsEnded = await applyEffect(trx, effect, name);
      await trx
        .updateTable('webhook_events')
        .set({ sessions_ended: sessionsEnded })
        .where('id', '=', row.id)
        .execute();
      return { ...receipt, outcome, sessionsEnded };
    };
    // Auth sessions have no lock order, so the transactions of two events may conflict.
    const result = await retryConflicts(() => db.transaction().execute(applyOnce));
    webhookCounter.inc({ event: formatEventLabel(name), outcome: result.outcome });
    metrics.countEnded('webhook', result.sessionsEnded);
    return result;
  }

  return {
    /**
     * Applies a webhook. Only a signed ID identifies a repeated delivery: the delivery ID of Standard Webhooks, or the
     * `event_id` if only the body is signed. Without an ID, two identical bodies may be two events.
     */
    receiveWebhook(
      { eventId, ...event }: WebhookEvent,
      { form: signature, deliveryId: signedId }: VerifiedSignature,
      body: Uint8Array,
    ) {
      const deliveryId = signature === 'standard' ? signedId : eventId;
      const effect = resolveEffect({ eventId, ...event });
      return receive({ ...event, deliveryId, signature, body }, effect);
    },

    receiveLogoutToken(
      token: { jti: string } & ({ sid: string; sub: string | null } | { sid: null; sub: string }),
      body: string,
    ) {
      const { jti, sid, sub: userId } = token;
      const subject = sid === null ? { userId: token.sub } : { providerSessionId: sid, userId };
      const deliveryId = `jti:${jti}`;
      const signature = 'logout_token';
      return receive(
        { deliveryId, signature, name: BACKCHANNEL_LOGOUT, userId, body },
        { shouldEndSessions: true, subject },
      );
    },

    countRejected: () => webhookCounter.inc({ event: 'other', outcome: 'refused' }),
  };
}

/** Returns the event label for metrics and logs. The set of labels is bounded. */
export function formatEventLabel(name: string | null): string {
  return name !== null && (EFFECTS_BY_EVENT.has(name) || name === BACKCHANNEL_LOGOUT)
    ? name
    : 'other';
}

/** Applies an effect, records it in the audit trail, and returns the number of ended auth sessions. */
async function applyEffect(
  trx: Transaction<Tables>,
  { shouldEndSessions, subject }: Effect,
  event: string | null,
): Promise<number> {
  const auditEntry = { actorId: null, userId: subject === 'all-users' ? null : subject.userId };
  if (!shouldEndSessions) {
    await clearAccess(trx, subject);
    await recordAudit(trx, { ...auditEntry, action: 'access_cleared', details: { event } });
    return 0;
  }
  const sessions = await endSessions(trx, subject);
  await recordAudit(trx, { ...auditEntry, action: 'sign_ins_ended', details: { event, sessions } });
  return sessions;
}

async function endSessions(trx: Transaction<Tables>, subject: Effect['subject']): Promise<number> {
  if (subject === 'all-users') return endAllSessions(trx);
  if ('providerSessionId' in subject) return endProviderSession(trx, subject);
  return (await endUserSessions(trx, subject.userId)).length;
}

/** Lists at most `limit` ledger rows, newest first. If `beforeId` is set, only rows with lower IDs. */
export function listWebhooks(
  db: Kysely<Tables>,
  { beforeId, limit }: { beforeId: number | undefined; limit: number },
): Promise<LedgerRow[]> {
  let query = db.selectFrom('webhook_events').selectAll().orderBy('id', 'desc').limit(limit);
  if (beforeId !== undefined) query = query.where('id', '<', beforeId);
  return query.execute();
}

/** Creates the sweep that deletes ledger rows after `retentionDays`. */
export const sweepWebhooks =
  (retentionDays: number): Sweep =>
  (limit) =>
    sql`
    delete from webhook_events where id in (
      select id from webhook_events
      where received_at < now() - make_interval(days => ${retentionDays})
      limit ${limit} for update skip locked
    )`;
