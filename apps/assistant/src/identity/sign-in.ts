import { ProblemError, SIGN_IN_STEP_MINUTES } from '@oselya/kit';
import { type Kysely, sql } from 'kysely';
import { randomPKCECodeVerifier } from 'openid-client';
import { recordAudit } from '../admin/audit.ts';
import { problem } from '../errors.ts';
import type { Tables, TerminalRequest } from '../tables.ts';
import type { Sweep } from '../upkeep.ts';
import { isId, randomId } from './cookies.ts';
import type { IdentityDeps } from './deps.ts';
import { isRejection, toSignInError, ProviderError } from './provider/transport.ts';
import { readCurrentMoment, endAuthSession, findInvalidationsSince } from './revocation.ts';
import { addAuthSession, type ClientInfo } from './auth-sessions.ts';
import { addTerminalSignIn } from './terminal.ts';
import { saveUser } from './users.ts';

/** The client that begins a sign-in: a browser, Android's web view, or a terminal with its request. */
type SignInClient = 'browser' | 'android' | TerminalRequest;

/** The browser of a sign-in: its short-lived ID, and its current auth session. */
type Visitor = { browserId: string | null; sessionId: string | null };

/** The parameters of the provider's redirect. RFC 6749 §4.1.2, RFC 9207. */
type CallbackParameters = { state?: string; code?: string; error?: string; iss?: string };

/** Signs users in through the identity provider. Specification 000, Auth session; Contract 3, Login. */
export function createSignIn({ db, log, provider, vault, metrics }: IdentityDeps) {
  /**
   * Begins a sign-in and returns the provider's URL. An Android sign-in ends in another browser, so it is not bound to a
   * browser. A terminal sign-in does not replace the browser's auth session.
   * @throws ProblemError `provider_unavailable`, `sign_in_not_configured`.
   */
  async function begin(client: SignInClient, visitor: Visitor): Promise<string> {
    const state = randomId();
    const codeVerifier = randomPKCECodeVerifier();
    const url = await provider.authorizationUrl({ state, codeVerifier }).catch((error: unknown) => {
      throw toSignInError(error);
    });
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
   * @throws ProblemError `login_not_valid`, `login_cancelled`, `login_refused`, `token_exchange_failed`,
   *   `account_without_email`, `provider_unavailable`.
   */
  async function complete(
    parameters: CallbackParameters,
    visitor: Visitor & { client: ClientInfo },
  ) {
    const { state } = parameters;
    if (state === undefined || !isId(state)) throw problem('login_not_valid');
    const login = await consumePendingLogin(db, { state, browserId: visitor.browserId });
    if (login === undefined) throw createNoPendingLoginError(visitor);
    const origin = { platform: login.platform ?? 'browser', address: visitor.client.address };
    try {
      const { began, tokens, user } = await redeem(parameters, login);
      const session = { id: randomId(), userId: user.id };
      const sealed = await vault.sealTokens(tokens, session);
      const { replaced, terminalSignInId } = await db.transaction().execute(async (trx) => {
        const { providerSessionId } = tokens;
        const owner = { userId: user.id, providerSessionId };
        const invalidated = await findInvalidationsSince(trx, began, owner);
        if (invalidated.has('sessions')) throw problem('login_refused');
        let ended = 0;
        for (const id of findReplacedSessionIds(login, visitor)) {
          const details = { reason: 'replaced' };
          // The tokens are not revoked, because many providers keep one grant for all sign-ins of a browser.
          if (await endAuthSession(trx, { id }, { action: 'signed_out', details })) ended += 1;
        }
        const isCurrent = !invalidated.has('access');
        const generation = await saveUser(trx, user, () => isCurrent);
        const checked = isCurrent ? { at: began.readAt, generation } : undefined;
        await addAuthSession(trx, { ...session, checked, client: visitor.client }, sealed);
        const ids = { actorId: user.id, userId: user.id };
        await recordAudit(trx, { action: 'signed_in', ...ids, details: origin });
        const { terminal, browserId } = login;
        if (terminal === null || browserId === null) {
          return { replaced: ended, terminalSignInId: null };
        }
        const id = randomId();
        await addTerminalSignIn(trx, { id, sessionId: session.id, browserId, terminal });
        return { replaced: ended, terminalSignInId: id };
      });
      metrics.countEnded('replaced', replaced);
      log.info({ user_id: user.id, platform: origin.platform }, 'signed in');
      return { sessionId: session.id, platform: login.platform, terminalSignInId };
    } catch (error) {
      if (error instanceof ProblemError) {
        const details = { code: error.code, ...origin };
        await recordAudit(db, { action: 'sign_in_failed', actorId: null, userId: null, details });
      }
      throw error;
    }
  }

  /** Redeems the code and fetches the user. `began` is read first, to detect revocations during both calls. */
  async function redeem({ code, error, iss }: CallbackParameters, { codeVerifier }: PendingLogin) {
    if (error !== undefined) {
      throw problem(error === 'access_denied' ? 'login_cancelled' : 'login_refused');
    }
    if (code === undefined) throw problem('login_not_valid');
    const began = await readCurrentMoment(db);
    const { tokens, subject } = await exchange({ code, iss, codeVerifier });
    const user = await provider.fetchUser(tokens.accessToken).catch((cause: unknown) => {
      throw isRejection(cause) ? problem('login_refused', { cause }) : toSignInError(cause);
    });
    if (subject !== undefined && subject !== user.id) throw problem('token_exchange_failed');
    return { began, tokens, user };
  }

  /** Exchanges the code for tokens. A failure is reported as 400, because it spends the code. */
  async function exchange(callback: Parameters<IdentityDeps['provider']['redeem']>[0]) {
    // An outage of discovery does not spend the code.
    await provider.prepare().catch((error: unknown) => {
      throw toSignInError(error);
    });
    try {
      return await provider.redeem(callback);
    } catch (error) {
      if (!(error instanceof ProviderError)) throw error;
      log.warn({ err: error }, 'a code could not be exchanged for tokens');
      throw problem('token_exchange_failed', { cause: error });
    }
  }

  return {
    begin,
    complete: (...args: Parameters<typeof complete>) =>
      metrics.countSignIn(() => complete(...args)),
  };
}

/** Returns the auth sessions that a sign-in replaces. The auth session of an Android system browser is kept. */
function findReplacedSessionIds(
  { platform, earlierSessionId }: PendingLogin,
  { sessionId }: Visitor,
) {
  const ids = new Set(platform === null ? [earlierSessionId, sessionId] : [earlierSessionId]);
  return [...ids].filter((id) => id !== null);
}

/** Creates the error of a callback without a pending login. */
function createNoPendingLoginError({ browserId }: Visitor): ProblemError {
  if (browserId !== null) return problem('login_not_valid');
  return problem('login_not_valid', {
    detail:
      'This browser did not send the cookie of the sign-in. It was begun in another browser, or under another address of this service than this one (localhost is not 127.0.0.1), it took longer than ten minutes, or cookies are off. Sign in again from here.',
  });
}

/** A sign-in that has begun and waits for the provider's callback. */
type PendingLogin = {
  state: string;
  codeVerifier: string;
  platform: 'android' | 'terminal' | null;
  browserId: string | null;
  earlierSessionId: string | null;
  terminal: TerminalRequest | null;
};

/** Limit of pending logins per browser. A new one replaces the oldest. */
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

/** Deletes and returns a pending login, so that only one callback can use it. */
async function consumePendingLogin(
  db: Kysely<Tables>,
  { state, browserId }: { state: string; browserId: string | null },
): Promise<PendingLogin | undefined> {
  const { rows } = await sql<PendingLogin>`
    delete from pending_logins
    where state = ${state} and expires_at > now()
      and (browser_id is null or browser_id = ${browserId})
    returning state, code_verifier as "codeVerifier", platform, browser_id as "browserId",
      earlier_session_id as "earlierSessionId", terminal`.execute(db);
  return rows[0];
}

/** Deletes expired pending logins. */
export const sweepPendingLogins: Sweep = (limit) => sql`
  delete from pending_logins where state in (
    select state from pending_logins where expires_at <= now()
    limit ${limit} for update skip locked
  )`;
