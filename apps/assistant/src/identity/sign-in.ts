import { type Logger, ProblemError } from '@oselya/kit';
import type { Kysely, Transaction } from 'kysely';
import { randomPKCECodeVerifier } from 'openid-client';
import { recordAudit } from '../audit/record.ts';
import { problem } from '../errors.ts';
import type { Tables } from '../tables.ts';
import { addSession, type ClientNote, deleteSession, sweepSessions } from './auth-sessions.ts';
import { isId, randomId } from './ids.ts';
import { invalidatedSince, latestInvalidation, tellUserChanged } from './invalidation.ts';
import type { IdentityMetrics } from './metrics.ts';
import { addPendingLogin, type PendingLogin, takePendingLogin } from './pending-logins.ts';
import { isRefusal, outageAtSignIn, ProviderError } from './provider/provider-error.ts';
import type { Provider } from './provider/provider.ts';
import type { SessionTokens } from './session-tokens.ts';
import { upsertUser } from './users.ts';

type SignInOptions = {
  db: Kysely<Tables>;
  log: Logger;
  provider: Provider;
  tokens: SessionTokens;
  metrics: Pick<IdentityMetrics, 'countSignIn' | 'countEnded'>;
  lifetimeDays: number;
};

/** Who begins or ends a sign-in: a browser by its own short-lived cookie, and its session until now. */
type Visitor = { browserId: string | null; sessionId: string | null };

/** Who comes back from the provider. */
type Returning = Visitor & { client: ClientNote };

type SignedIn = { sessionId: string; platform: PendingLogin['platform'] };

/** What the provider's redirect brought along. */
type ProviderAnswer = { state?: string; code?: string; error?: string; iss?: string };

/** Signs people in: sends them to the provider, and makes a session of what comes back. */
export function createSignIn({ db, log, provider, tokens, metrics, lifetimeDays }: SignInOptions) {
  /**
   * Begins a sign-in, and gives the address at the provider to send the browser to.
   * Android ends the sign-in in another browser than it began in, so nothing ties it to one.
   */
  async function begin(platform: 'browser' | 'android', visitor: Visitor): Promise<string> {
    const state = randomId();
    const codeVerifier = randomPKCECodeVerifier();
    const url = await orOutage(provider.authorizationUrl({ state, codeVerifier }));
    const isAndroid = platform === 'android';
    await addPendingLogin(db, {
      state,
      codeVerifier,
      platform: isAndroid ? 'android' : null,
      browserId: isAndroid ? null : visitor.browserId,
      earlierSessionId: isAndroid ? null : visitor.sessionId,
    });
    return url;
  }

  /**
   * Ends a sign-in with a new session, and the browser's earlier one with it. The state is judged
   * first: with one that is not valid the code is never redeemed. Specification 000, Auth session;
   * Contract 3, Login.
   *
   * The earlier session's tokens are not revoked at the provider: many keep one grant for all sign-ins
   * of a browser, and would end the new one too.
   * A user who is signed out everywhere while the sign-in is on its way does not come in by it.
   *
   * A sign-in that fails is in the audit trail, once its pending login is spent: how many of those there
   * are is limited where they begin. A callback with any other state leaves no line, since there is no
   * end of those.
   * @throws `login_not_valid`, `login_cancelled`, `login_refused`, `token_exchange_failed`,
   * `account_without_email`, `provider_unavailable`.
   */
  async function complete(answer: ProviderAnswer, visitor: Returning): Promise<SignedIn> {
    const { state } = answer;
    if (state === undefined || !isId(state)) throw problem('login_not_valid');
    const login = await takePendingLogin(db, { state, browserId: visitor.browserId });
    if (login === undefined) throw noPendingLogin(visitor);
    try {
      return await finish(login, answer, visitor);
    } catch (error) {
      if (error instanceof ProblemError) {
        const details = { code: error.code, ...origin(login, visitor) };
        await recordAudit(db, { action: 'sign_in_failed', actorId: null, userId: null, details });
      }
      throw error;
    }
  }

  async function finish(
    login: PendingLogin,
    { code, error, iss }: ProviderAnswer,
    visitor: Returning,
  ): Promise<SignedIn> {
    if (error !== undefined) {
      throw problem(error === 'access_denied' ? 'login_cancelled' : 'login_refused');
    }
    if (code === undefined) throw problem('login_not_valid');

    // While there is nothing to verify its answer with, no code is spent.
    await orOutage(provider.prepare());
    const began = await latestInvalidation(db);
    const { subject, ...redeemed } = await redeem(code, iss, login.codeVerifier);
    const user = await fetchUser(redeemed.accessToken);
    if (subject !== undefined && subject !== user.id) throw problem('token_exchange_failed');

    const session = { id: randomId(), userId: user.id };
    const sealed = await tokens.seal(redeemed, session);
    const earlier = login.platform === 'android' ? [] : [visitor.sessionId, login.earlierSessionId];
    await sweepSessions(db, lifetimeDays);
    const replaced = await db.transaction().execute(async (trx) => {
      const invalidated = await invalidatedSince(trx, { userId: user.id, began });
      if (invalidated.has('sessions')) throw problem('login_refused');
      const ended = await endEarlier(trx, new Set(earlier));
      const generation = await upsertUser(trx, user, !invalidated.has('access'));
      const checked = invalidated.has('access') ? undefined : { at: began.readAt, generation };
      await addSession(trx, { ...session, ...sealed, checked, client: visitor.client });
      const details = origin(login, visitor);
      await recordAudit(trx, { action: 'signed_in', actorId: user.id, userId: user.id, details });
      return ended;
    });
    metrics.countEnded('replaced', replaced);
    log.info({ user_id: user.id, platform: login.platform ?? 'browser' }, 'signed in');
    return { sessionId: session.id, platform: login.platform };
  }

  /** Whatever the reason, a failed exchange is 400 here: the code is spent, so one begins again. */
  async function redeem(code: string, iss: string | undefined, codeVerifier: string) {
    try {
      return await provider.redeem({ code, iss, codeVerifier });
    } catch (error) {
      if (!(error instanceof ProviderError)) throw error;
      log.warn({ err: error }, 'a code could not be exchanged for tokens');
      throw problem('token_exchange_failed', { cause: error });
    }
  }

  async function fetchUser(accessToken: string) {
    try {
      return await provider.fetchUser(accessToken);
    } catch (error) {
      throw isRefusal(error) ? problem('login_refused', { cause: error }) : outageAtSignIn(error);
    }
  }

  return {
    begin,
    complete: (...args: Parameters<typeof complete>) =>
      metrics.countSignIn(() => complete(...args)),
  };
}

/** A browser without the cookie of a sign-in began it elsewhere, under another name or not at all. */
function noPendingLogin({ browserId }: Visitor): ProblemError {
  if (browserId !== null) return problem('login_not_valid');
  return problem('login_not_valid', {
    detail:
      'This browser did not send the cookie of the sign-in. It was begun in another browser, or under another address of this service than this one (localhost is not 127.0.0.1), it took longer than ten minutes, or cookies are off. Sign in again from here.',
  });
}

/** What the audit trail says of where a sign-in came from. */
const origin = ({ platform }: PendingLogin, { client }: Returning) => ({
  platform: platform ?? 'browser',
  address: client.address,
});

async function orOutage<Result>(work: Promise<Result>): Promise<Result> {
  try {
    return await work;
  } catch (error) {
    throw outageAtSignIn(error);
  }
}

/** Gives how many there were. */
async function endEarlier(
  trx: Transaction<Tables>,
  ids: ReadonlySet<string | null>,
): Promise<number> {
  let count = 0;
  for (const id of ids) {
    const ended = id === null ? undefined : await deleteSession(trx, id);
    if (ended === undefined) continue;
    const { userId } = ended;
    const details = { reason: 'replaced' };
    await recordAudit(trx, { action: 'signed_out', actorId: userId, userId, details });
    await tellUserChanged(trx, userId);
    count += 1;
  }
  return count;
}
