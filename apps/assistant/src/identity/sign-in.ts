import { ProblemError, SIGN_IN_STEP_MINUTES } from '@oselya/kit';
import { type Kysely, sql, type Transaction } from 'kysely';
import { randomPKCECodeVerifier } from 'openid-client';
import type { User } from '../access/permissions.ts';
import { recordAudit } from '../admin/audit.ts';
import { problem } from '../errors.ts';
import type { Tables, TerminalRequest } from '../tables.ts';
import type { Sweep } from '../upkeep.ts';
import { createRandomId, isId } from './cookies.ts';
import type { IdentityDeps } from './deps.ts';
import type { Tokens } from './provider/provider.ts';
import { isRejection, ProviderError, toSignInError } from './provider/transport.ts';
import {
  endAuthSession,
  findInvalidationsSince,
  type InvalidationCursor,
  readInvalidationCursor,
} from './revocation.ts';
import { saveUser } from './users.ts';

/** Browser that signs in: its short-lived ID, and the ID of its current auth session. */
type Visitor = { browserId: string | null; sessionId: string | null };

/** Columns that describe the client in the user's list of auth sessions. */
export type ClientInfo = { user_agent: string | null; address: string | null };

type CallbackParameters = { state?: string; code?: string; error?: string; iss?: string };

/** Tokens and user of a redeemed code. `startCursor` is older than both calls to the provider. */
type Redemption = { startCursor: InvalidationCursor; tokens: Tokens; user: User };

/** Creates the service that signs users in. Specification 000, Auth session; Contract 3, Login. */
export function createSignInService({ db, log, provider, vault, metrics }: IdentityDeps) {
  /**
   * Begins a sign-in and returns the provider's URL. An Android sign-in ends in a different browser, so it is not bound
   * to a browser. A terminal sign-in does not replace the browser's auth session.
   */
  async function begin(
    client: 'browser' | 'android' | TerminalRequest,
    visitor: Visitor,
  ): Promise<string> {
    const state = createRandomId();
    const codeVerifier = randomPKCECodeVerifier();
    const url = await provider
      .buildAuthorizationUrl({ state, codeVerifier })
      .catch(throwSignInError);
    const terminal = typeof client === 'string' ? null : client;
    await addPendingLogin(db, {
      state,
      codeVerifier,
      platform: terminal !== null ? 'terminal' : client === 'android' ? 'android' : null,
      browserId: client === 'android' ? null : visitor.browserId,
      earlierSessionId: terminal === null ? visitor.sessionId : null,
      terminal,
    });
    return url;
  }

  /**
   * Completes a sign-in with a new auth session. `terminalSignInId` is set if the user must still confirm a terminal. A
   * failure is audited only after the pending login is consumed, which limits the number of audit records.
   */
  async function complete(parameters: CallbackParameters, visitor: Visitor, client: ClientInfo) {
    const login = await consumePendingLogin(db, parameters.state, visitor.browserId);
    const origin = { platform: login.platform ?? 'browser', address: client.address };
    try {
      const redemption = await redeem(parameters, login);
      const { tokens, user } = redemption;
      const row = { id: createRandomId(), user_id: user.id };
      const columns = await vault.seal(tokens, row);
      const { endedCount, terminalSignInId } = await db.transaction().execute(async (trx) => {
        const { checkColumns, replacedCount } = await admitUser(trx, redemption, login, visitor);
        await trx
          .insertInto('user_auth_sessions')
          .values({ ...row, ...columns, ...checkColumns, ...client })
          .execute();
        const ids = { actorId: user.id, userId: user.id };
        await recordAudit(trx, { action: 'signed_in', ...ids, details: origin });
        return {
          endedCount: replacedCount,
          terminalSignInId: await addTerminalSignIn(trx, row.id, login),
        };
      });
      metrics.countEnded('replaced', endedCount);
      log.info({ user_id: user.id, platform: origin.platform }, 'signed in');
      return { sessionId: row.id, platform: login.platform, terminalSignInId };
    } catch (error) {
      if (error instanceof ProblemError) {
        const details = { code: error.code, ...origin };
        await recordAudit(db, { action: 'sign_in_failed', actorId: null, userId: null, details });
      }
      throw error;
    }
  }

  async function redeem(
    { code, error, iss }: CallbackParameters,
    { codeVerifier }: PendingLogin,
  ): Promise<Redemption> {
    if (error !== undefined) {
      throw problem(error === 'access_denied' ? 'login_cancelled' : 'login_refused');
    }
    if (code === undefined) throw problem('login_not_valid');
    const startCursor = await readInvalidationCursor(db);
    // Prepare first, so that an outage of discovery does not use up the code.
    await provider.prepare().catch(throwSignInError);
    const { tokens, subject } = await provider
      .redeem({ code, iss, codeVerifier })
      .catch((cause: unknown) => {
        if (!(cause instanceof ProviderError)) throw cause;
        log.warn({ err: cause }, 'a code could not be exchanged for tokens');
        // Not 503, because the failed exchange may have used up the code.
        throw problem('token_exchange_failed', { cause });
      });
    const user = await provider.fetchUser(tokens.accessToken).catch((cause: unknown) => {
      throw isRejection(cause) ? problem('login_refused', { cause }) : toSignInError(cause);
    });
    if (subject !== undefined && subject !== user.id) throw problem('token_exchange_failed');
    return { startCursor, tokens, user };
  }

  return {
    begin,
    complete: (...args: Parameters<typeof complete>) =>
      metrics.countSignIn(() => complete(...args)),
  };
}

function throwSignInError(error: unknown): never {
  throw toSignInError(error);
}

/**
 * Rejects a sign-in that was revoked since `startCursor`, ends the auth sessions that it replaces, and saves the user.
 * Does not revoke the tokens of replaced auth sessions, because many providers keep one grant for each browser.
 */
async function admitUser(
  trx: Transaction<Tables>,
  { startCursor, tokens, user }: Redemption,
  { platform, earlierSessionId }: PendingLogin,
  { sessionId }: Visitor,
) {
  const providerSessionId = tokens.providerSessionId ?? null;
  const invalidations = await findInvalidationsSince(trx, startCursor, user.id, providerSessionId);
  if (invalidations.has('sessions')) throw problem('login_refused');
  let replacedCount = 0;
  // An Android or terminal sign-in keeps the auth session of the browser that calls back.
  const earlierIds = new Set([earlierSessionId, platform === null ? sessionId : null]);
  for (const id of earlierIds) {
    if (id === null) continue;
    const audit = { action: 'signed_out', details: { reason: 'replaced' } } as const;
    if (await endAuthSession(trx, { id }, audit)) replacedCount += 1;
  }
  const isCurrent = !invalidations.has('access');
  const generation = await saveUser(trx, user, () => isCurrent);
  const checkColumns = { user_checked_at: startCursor.readAt, checked_generation: generation };
  return { replacedCount, checkColumns: isCurrent ? checkColumns : {} };
}

type PendingLogin = {
  state: string;
  codeVerifier: string;
  platform: 'android' | 'terminal' | null;
  browserId: string | null;
  earlierSessionId: string | null;
  terminal: TerminalRequest | null;
};

/** Maximum pending logins per browser. A new one replaces the oldest. */
const MAX_PENDING_LOGINS_PER_BROWSER = 10;

async function addPendingLogin(db: Kysely<Tables>, login: PendingLogin): Promise<void> {
  await sql`
    insert into pending_logins
      (state, code_verifier, platform, browser_id, earlier_session_id, terminal, expires_at)
    values (${login.state}, ${login.codeVerifier}, ${login.platform}, ${login.browserId},
            ${login.earlierSessionId}, ${login.terminal && JSON.stringify(login.terminal)}::jsonb,
            now() + make_interval(mins => ${SIGN_IN_STEP_MINUTES}))`.execute(db);
  if (login.browserId === null) return;
  await sql`
    delete from pending_logins where state in (
      select state from pending_logins where browser_id = ${login.browserId}
      order by expires_at desc, state offset ${MAX_PENDING_LOGINS_PER_BROWSER}
    )`.execute(db);
}

/** Deletes and returns a pending login. Only one callback can use it; others get `login_not_valid`. */
async function consumePendingLogin(
  db: Kysely<Tables>,
  state: string | undefined,
  browserId: string | null,
): Promise<PendingLogin> {
  if (!isId(state)) throw problem('login_not_valid');
  const { rows } = await sql<PendingLogin>`
    delete from pending_logins
    where state = ${state} and expires_at > now()
      and (browser_id is null or browser_id = ${browserId})
    returning state, code_verifier as "codeVerifier", platform, browser_id as "browserId",
      earlier_session_id as "earlierSessionId", terminal`.execute(db);
  if (rows[0] !== undefined) return rows[0];
  if (browserId !== null) throw problem('login_not_valid');
  throw problem('login_not_valid', {
    detail:
      'This browser did not send the cookie of the sign-in. It was begun in another browser, or under a different address of this service than this one (localhost is not 127.0.0.1), it took longer than ten minutes, or cookies are off. Sign in again from here.',
  });
}

/** Stores a terminal's sign-in for confirmation, and returns its ID. Returns null for other sign-ins. */
async function addTerminalSignIn(
  trx: Transaction<Tables>,
  authSessionId: string,
  { browserId, terminal }: PendingLogin,
): Promise<string | null> {
  if (terminal === null || browserId === null) return null;
  const id = createRandomId();
  await trx
    .insertInto('terminal_sign_ins')
    .values({
      id,
      auth_session_id: authSessionId,
      browser_id: browserId,
      ...terminal,
      expires_at: sql<Date>`now() + make_interval(mins => ${SIGN_IN_STEP_MINUTES})`,
    })
    .execute();
  return id;
}

/** Deletes expired pending logins. */
export const sweepPendingLogins: Sweep = (limit) => sql`
  delete from pending_logins where state in (
    select state from pending_logins where expires_at <= now()
    limit ${limit} for update skip locked
  )`;

/** Deletes the auth sessions of terminal sign-ins that expired before redemption. */
export const sweepTerminalSignIns: Sweep = (limit) => sql`
  delete from user_auth_sessions where id in (
    select s.id from terminal_sign_ins t join user_auth_sessions s on s.id = t.auth_session_id
    where t.expires_at <= now()
    limit ${limit} for update skip locked
  )`;
