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

/** The members of a webhook's body that are used; null for those that are missing or malformed. */
type WebhookEvent = { name: string | null; userId: string | null; eventId: string | null };

const MAX_NAME_LENGTH = 100;

/**
 * Reads the body of a webhook: `{event | type, user_id | data.user_id, event_id}`; Standard Webhooks have
 * `data.user_id`. Contract 3, Webhooks.
 * @returns Undefined if the body is not a JSON object in UTF-8.
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

/** Replaces NUL characters, which PostgreSQL does not store: removing them could turn an unknown name into a known one. */
function readName(value: unknown): string | null {
  if (typeof value !== 'string' || value === '') return null;
  return value.slice(0, MAX_NAME_LENGTH).replaceAll('\u0000', '\ufffd').toWellFormed();
}

/** The events that have an effect. Specification 000, Events; Contract 3, Webhooks. */
const effects: ReadonlyMap<string, 'end_sessions' | 'end_all_sessions' | 'clear_access'> = new Map([
  ['user.blocked', 'end_sessions'],
  ['user.archived', 'end_sessions'],
  ['user.deleted', 'end_sessions'],
  ['session.revoked', 'end_sessions'],
  ['auth.global_logout', 'end_all_sessions'],
  ['client.roles_changed', 'clear_access'],
  ['client.permissions_changed', 'clear_access'],
] as const);

/** The name of logout tokens in the ledger and in the metrics. */
const BACKCHANNEL_LOGOUT = 'backchannel_logout';

type Whose = { userId: string } | 'everybody';
type Effect =
  | { endsSessions: false; whose: Whose }
  | { endsSessions: true; whose: Whose | ProviderSession };

/** Events of `client.…` are applied whichever client they name, because clearing too much costs only a fetch. */
function effectOf({ name, userId }: WebhookEvent): Effect | undefined {
  const effect = effects.get(name ?? '');
  if (effect === 'end_all_sessions') return { endsSessions: true, whose: 'everybody' };
  if (effect === 'clear_access') {
    return { endsSessions: false, whose: userId === null ? 'everybody' : { userId } };
  }
  if (effect === undefined || userId === null) return undefined;
  return { endsSessions: true, whose: { userId } };
}

/** A row of the ledger. Contract 3, Webhooks. */
type LedgerRow = Selectable<Tables['webhook_events']>;

/** A processed event; `user_missing` if it ends a user's sessions and names no user that can be read. */
export type Receipt = {
  outcome: 'applied' | 'ignored' | 'user_missing' | 'duplicate';
  event: string | null;
  userId: string | null;
  sessionsEnded: number;
};

/** Applies verified events of the identity provider. */
export type EventReceiver = ReturnType<typeof createEventReceiver>;

/**
 * Creates the receiver of verified events. An event's effect, its row in the ledger and its line in the audit trail are
 * one transaction, so the provider can repeat a failed delivery. Contract 3, Webhooks.
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
  const counter = new Counter({
    name: 'assistant_webhooks_total',
    help: 'Webhooks and logout tokens of the identity provider, by event and by what became of them.',
    labelNames: ['event', 'outcome'],
    registers: [registry],
  });

  async function receive(
    event: {
      /** An event whose delivery id is in the ledger already has no effect. */
      deliveryId: string | null;
      signature: LedgerRow['signature'];
      name: string | null;
      userId: string | null;
      body: Uint8Array | string;
    },
    effect: Effect | undefined,
  ): Promise<Receipt> {
    const { deliveryId, signature, name, userId, body } = event;
    const apply = async (trx: Transaction<Tables>): Promise<Receipt> => {
      const receipt = { event: name, userId, sessionsEnded: 0 };
      const outcome = effect === undefined ? 'ignored' : 'applied';
      // A concurrent delivery with the same id waits here until this transaction ends.
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
        return { ...receipt, outcome: effects.has(name ?? '') ? 'user_missing' : 'ignored' };
      }
      const sessionsEnded = await applyEffect(trx, effect, name);
      await trx
        .updateTable('webhook_events')
        .set({ sessions_ended: sessionsEnded })
        .where('id', '=', row.id)
        .execute();
      return { ...receipt, outcome, sessionsEnded };
    };
    // Sessions have no lock order, so two events may conflict.
    const result = await retryConflicts(() => db.transaction().execute(apply));
    counter.inc({ event: eventLabel(name), outcome: result.outcome });
    metrics.countEnded('webhook', result.sessionsEnded);
    return result;
  }

  return {
    /**
     * Only a signed id identifies a repeated delivery. A signature over the body alone signs no delivery id, and two
     * equal bodies may be two events, so such a body is repeated only if it has an `event_id`.
     */
    webhook: (
      event: WebhookEvent,
      signature: { form: 'hmac' | 'standard'; deliveryId: string | null },
      body: Uint8Array,
    ) =>
      receive(
        {
          deliveryId: signature.form === 'standard' ? signature.deliveryId : event.eventId,
          signature: signature.form,
          name: event.name,
          userId: event.userId,
          body,
        },
        effectOf(event),
      ),

    logoutToken(
      {
        jti,
        sid,
        sub,
      }: { jti: string } & ({ sid: string; sub: string | null } | { sid: null; sub: string }),
      token: string,
    ) {
      const whose = sid === null ? { userId: sub } : { providerSessionId: sid, userId: sub };
      return receive(
        {
          deliveryId: `jti:${jti}`,
          signature: 'logout_token',
          name: BACKCHANNEL_LOGOUT,
          userId: sub,
          body: token,
        },
        { endsSessions: true, whose },
      );
    },

    countRejected: () => counter.inc({ event: 'other', outcome: 'refused' }),
  };
}

/** Returns a bounded set of labels. */
export function eventLabel(name: string | null): string {
  return name !== null && (effects.has(name) || name === BACKCHANNEL_LOGOUT) ? name : 'other';
}

/** Returns the number of sessions that ended. */
async function applyEffect(
  trx: Transaction<Tables>,
  { endsSessions, whose }: Effect,
  event: string | null,
): Promise<number> {
  const line = { actorId: null, userId: whose === 'everybody' ? null : whose.userId };
  if (!endsSessions) {
    await clearAccess(trx, whose);
    await recordAudit(trx, { ...line, action: 'access_cleared', details: { event } });
    return 0;
  }
  const sessions = await endSessions(trx, whose);
  await recordAudit(trx, { ...line, action: 'sign_ins_ended', details: { event, sessions } });
  return sessions;
}

async function endSessions(trx: Transaction<Tables>, whose: Effect['whose']): Promise<number> {
  if (whose === 'everybody') return endAllSessions(trx);
  if ('providerSessionId' in whose) return endProviderSession(trx, whose);
  return (await endUserSessions(trx, whose.userId)).length;
}

/** Lists the ledger, newest first. @param page.before The id of the last row of the page before. */
export function listWebhooks(
  db: Kysely<Tables>,
  page: { before: number | undefined; limit: number },
): Promise<LedgerRow[]> {
  const { before, limit } = page;
  let query = db.selectFrom('webhook_events').selectAll().orderBy('id', 'desc').limit(limit);
  if (before !== undefined) query = query.where('id', '<', before);
  return query.execute();
}

/** Deletes rows that are older than AUDIT_RETENTION_DAYS. */
export const sweepWebhooks =
  (retentionDays: number): Sweep =>
  (limit) =>
    sql`
    delete from webhook_events where id in (
      select id from webhook_events
      where received_at < now() - make_interval(days => ${retentionDays})
      limit ${limit} for update skip locked
    )`;
