import { ProblemError, SIGN_IN_STEP_MINUTES } from '@oselya/kit';
import { type Kysely, sql } from 'kysely';
import { randomPKCECodeVerifier } from 'openid-client';
import { recordAudit } from '../admin/audit.ts';
import { problem } from '../errors.ts';
import type { Tables, TerminalRequest } from '../tables.ts';
import type { Sweep } from '../upkeep.ts';
import { isId, randomId } from './cookies.ts';
import type { IdentityDeps } from './deps.ts';
import { isRejection, outageAtSignIn, ProviderError } from './provider/transport.ts';
import { currentMoment, endSession, invalidatedSince } from './revocation.ts';
import { addSession, type ClientNote } from './auth-sessions.ts';
import { addTerminalSignIn } from './terminal.ts';
import { saveUser } from './users.ts';

/** The client that begins a sign-in: a browser, Android's web view, or a terminal with its request. */
type SignInClient = 'browser' | 'android' | TerminalRequest;

/** The browser of a sign-in: its short-lived id, and its auth session so far. */
type Visitor = { browserId: string | null; sessionId: string | null };

/** The parameters of the provider's redirect. RFC 6749 §4.1.2, RFC 9207. */
type ProviderAnswer = { state?: string; code?: string; error?: string; iss?: string };

/** Signs users in through the identity provider. Specification 000, Auth session; Contract 3, Login. */
export function createSignIn({ db, log, provider, vault, metrics }: IdentityDeps) {
  /**
   * Begins a sign-in and returns the address at the provider. An Android sign-in ends in another browser, so it is tied
   * to none; a terminal's does not replace the browser's session.
   * @throws ProblemError `provider_unavailable`, `sign_in_not_configured`.
   */
  async function begin(client: SignInClient, visitor: Visitor): Promise<string> {
    const state = randomId();
    const codeVerifier = randomPKCECodeVerifier();
    const url = await provider.authorizationUrl({ state, codeVerifier }).catch((error: unknown) => {
      throw outageAtSignIn(error);
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
   * Ends a sign-in with a new session; `terminalSignInId` names one that its user still has to confirm. A failure is
   * recorded in the audit trail once the pending login is consumed, which bounds the number of lines.
   * @throws ProblemError `login_not_valid`, `login_cancelled`, `login_refused`, `token_exchange_failed`,
   *   `account_without_email`, `provider_unavailable`.
   */
  async function complete(answer: ProviderAnswer, visitor: Visitor & { client: ClientNote }) {
    const { state } = answer;
    if (state === undefined || !isId(state)) throw problem('login_not_valid');
    const login = await takePendingLogin(db, { state, browserId: visitor.browserId });
    if (login === undefined) throw noPendingLogin(visitor);
    const origin = { platform: login.platform ?? 'browser', address: visitor.client.address };
    try {
      const { began, tokens, user } = await redeem(answer, login);
      const session = { id: randomId(), userId: user.id };
      const sealed = await vault.sealTokens(tokens, session);
      const { replaced, terminalSignInId } = await db.transaction().execute(async (trx) => {
        const { providerSessionId } = tokens;
        const owner = { userId: user.id, providerSessionId };
        const invalidated = await invalidatedSince(trx, began, owner);
        if (invalidated.has('sessions')) throw problem('login_refused');
        let ended = 0;
        for (const id of earlierSessions(login, visitor)) {
          const details = { reason: 'replaced' };
          // Its tokens stay valid, because many providers keep one grant for all sign-ins of a browser.
          if (await endSession(trx, { id }, { action: 'signed_out', details })) ended += 1;
        }
        const isCurrent = !invalidated.has('access');
        const generation = await saveUser(trx, user, () => isCurrent);
        const checked = isCurrent ? { at: began.readAt, generation } : undefined;
        await addSession(trx, { ...session, checked, client: visitor.client }, sealed);
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

  /** Redeems the code, and fetches the user. `began` precedes both, for revocations in between. */
  async function redeem({ code, error, iss }: ProviderAnswer, { codeVerifier }: PendingLogin) {
    if (error !== undefined) {
      throw problem(error === 'access_denied' ? 'login_cancelled' : 'login_refused');
    }
    if (code === undefined) throw problem('login_not_valid');
    const began = await currentMoment(db);
    const { tokens, subject } = await exchange({ code, iss, codeVerifier });
    const user = await provider.fetchUser(tokens.accessToken).catch((cause: unknown) => {
      throw isRejection(cause) ? problem('login_refused', { cause }) : outageAtSignIn(cause);
    });
    if (subject !== undefined && subject !== user.id) throw problem('token_exchange_failed');
    return { began, tokens, user };
  }

  /** Exchanges the code for tokens. A failure is 400, because the code is then spent. */
  async function exchange(answer: Parameters<IdentityDeps['provider']['redeem']>[0]) {
    // An outage of discovery does not spend the code.
    await provider.prepare().catch((error: unknown) => {
      throw outageAtSignIn(error);
    });
    try {
      return await provider.redeem(answer);
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

/** Returns the sessions that a sign-in replaces; the session of an Android system browser stays. */
function earlierSessions({ platform, earlierSessionId }: PendingLogin, { sessionId }: Visitor) {
  const ids = new Set(platform === null ? [earlierSessionId, sessionId] : [earlierSessionId]);
  return [...ids].filter((id) => id !== null);
}

/** Creates the error of a callback without a pending login. */
function noPendingLogin({ browserId }: Visitor): ProblemError {
  if (browserId !== null) return problem('login_not_valid');
  return problem('login_not_valid', {
    detail:
      'This browser did not send the cookie of the sign-in. It was begun in another browser, or under another address of this service than this one (localhost is not 127.0.0.1), it took longer than ten minutes, or cookies are off. Sign in again from here.',
  });
}

/** A sign-in that has begun. */
type PendingLogin = {
  state: string;
  codeVerifier: string;
  platform: 'android' | 'terminal' | null;
  browserId: string | null;
  earlierSessionId: string | null;
  terminal: TerminalRequest | null;
};

/** Pending logins of one browser; further ones replace the oldest. */
const MAX_PER_BROWSER = 10;

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
      order by expires_at desc, state offset ${MAX_PER_BROWSER}
    )`.execute(db);
}

/** Consumes a pending login of this browser, so that one callback on one process gets it. */
async function takePendingLogin(
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

/** Deletes pending logins that have expired. */
export const sweepPendingLogins: Sweep = (limit) => sql`
  delete from pending_logins where state in (
    select state from pending_logins where expires_at <= now()
    limit ${limit} for update skip locked
  )`;
