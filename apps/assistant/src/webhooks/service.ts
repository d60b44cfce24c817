import { createHash } from 'node:crypto';
import type { IncomingHttpHeaders } from 'node:http';
import { retryConflicts } from '@oselya/db';
import type { Kysely, Transaction } from 'kysely';
import { recordAudit } from '../admin/audit.ts';
import {
  clearAccess,
  endAllSessions,
  endProviderSession,
  endSessions,
  type IdentityMetrics,
} from '../identity/index.ts';
import type { Tables } from '../tables.ts';
import { readEvent } from './event-body.ts';
import { type Effect, effectOf, rules } from './events.ts';
import type { CountWebhook } from './metrics.ts';
import { addWebhook, type LedgerRow, noteSessionsEnded } from './repository.ts';
import type { SignatureRefusal, VerifySignature } from './signature.ts';

/** What became of a webhook whose sender is verified. */
type Accepted = {
  /** `user_missing`: the event ends a user's sessions, and names no user that can be read. */
  outcome: 'applied' | 'ignored' | 'user_missing' | 'duplicate';
  event: string | null;
  userId: string | null;
  sessionsEnded: number;
};

/** What became of a webhook. */
export type Receipt =
  | Accepted
  | { outcome: 'refused'; reason: SignatureRefusal | 'body_malformed' | 'logout_token_not_valid' };

/** Takes webhooks of the identity provider in. */
export type ReceiveWebhook = (request: {
  headers: IncomingHttpHeaders;
  body: Uint8Array;
}) => Promise<Receipt>;

/**
 * Acts on the webhooks of the identity provider. What one does, its row in the ledger and its line in
 * the audit trail are one transaction: where that fails nothing has happened, and the delivery that the
 * provider then repeats is acted on. Contract 3, Webhooks.
 */
export function createWebhooks({
  db,
  verify,
  countWebhook,
  metrics,
}: {
  db: Kysely<Tables>;
  verify: VerifySignature;
  countWebhook: CountWebhook;
  metrics: Pick<IdentityMetrics, 'countEnded'>;
}): ReceiveWebhook {
  const receive: ReceiveWebhook = async ({ headers, body }) => {
    const verified = verify(headers, body);
    if ('refusal' in verified) return { outcome: 'refused', reason: verified.refusal };
    const event = readEvent(body);
    if (event === undefined) return { outcome: 'refused', reason: 'body_malformed' };

    const { name, userId, eventId } = event;
    const effect = effectOf(event);
    const outcome = ignoredAs(name);
    // Only what is signed can tell a repeated delivery from a new one. A signature over the body alone
    // signs no id of the delivery, and two equal bodies may well be two events: somebody is blocked,
    // unblocked and blocked again. Leaving the second one out would leave them in, while acting once too
    // often costs a sign-in or a fetch. So such a body counts as repeated only where it names an id.
    const deliveryId = verified.form === 'standard' ? verified.deliveryId : eventId;

    const receipt = await actOnce(db, {
      deliveryId,
      signature: verified.form,
      name,
      userId,
      body,
      effect,
    });
    return receipt.outcome === 'ignored' ? { ...receipt, outcome } : receipt;
  };

  return async (request) => {
    const receipt = await receive(request);
    countWebhook(receipt);
    if (receipt.outcome !== 'refused') metrics.countEnded('webhook', receipt.sessionsEnded);
    return receipt;
  };
}

/** An event whose sender is verified. */
type VerifiedEvent = Pick<LedgerRow, 'signature'> & {
  /** Where it is in the ledger already, nothing is done. */
  deliveryId: string | null;
  name: string | null;
  userId: string | null;
  body: Uint8Array | string;
  effect: Effect | undefined;
};

/** Enters an event into the ledger and does what it asks for, in one transaction. */
export function actOnce(
  db: Kysely<Tables>,
  { deliveryId, signature, name, userId, body, effect }: VerifiedEvent,
): Promise<Accepted> {
  const outcome = effect === undefined ? 'ignored' : 'applied';
  const act = async (trx: Transaction<Tables>): Promise<Accepted> => {
    const id = await addWebhook(trx, {
      delivery_id: deliveryId,
      signature,
      event: name,
      user_id: userId,
      outcome,
      body_sha256: createHash('sha256').update(body).digest('hex'),
    });
    if (id === undefined) {
      return { outcome: 'duplicate', event: name, userId, sessionsEnded: 0 };
    }
    const sessionsEnded = effect === undefined ? 0 : await apply(trx, effect, name);
    if (sessionsEnded > 0) await noteSessionsEnded(trx, id, sessionsEnded);
    return { outcome, event: name, userId, sessionsEnded };
  };
  // The sessions of a user, or of everybody, are locked in no order that all others keep to.
  return retryConflicts(() => db.transaction().execute(act));
}

/** Every event of the table has an effect unless it lacks its user. */
function ignoredAs(name: string | null): 'ignored' | 'user_missing' {
  return name !== null && rules.has(name) ? 'user_missing' : 'ignored';
}

/** Gives the number of sessions that ended. */
async function apply(
  trx: Transaction<Tables>,
  { does, whose }: Effect,
  event: string | null,
): Promise<number> {
  const of = { actorId: null, userId: whose === 'everybody' ? null : whose.userId };
  if (does === 'clear_access') {
    await clearAccess(trx, whose);
    await recordAudit(trx, { action: 'access_cleared', ...of, details: { event } });
    return 0;
  }
  const sessions = await end(trx, whose);
  await recordAudit(trx, { action: 'sign_ins_ended', ...of, details: { event, sessions } });
  return sessions;
}

async function end(trx: Transaction<Tables>, whose: Effect['whose']): Promise<number> {
  if (whose === 'everybody') return endAllSessions(trx);
  const ended =
    'providerSessionId' in whose ? endProviderSession(trx, whose) : endSessions(trx, whose);
  return (await ended).length;
}
