import { ProblemError } from '@oselya/kit';
import type { Kysely } from 'kysely';
import { randomPKCECodeVerifier } from 'openid-client';
import { recordAudit } from '../admin/audit.ts';
import { problem } from '../errors.ts';
import type { Tables, TerminalRequest } from '../tables.ts';
import { type Finished, type FinishSignIn, originOf, type Returning } from './finish-sign-in.ts';
import { isId, randomId } from './ids.ts';
import type { IdentityMetrics } from './metrics.ts';
import { addPendingLogin, type PendingLogin, takePendingLogin } from './pending-logins.sql.ts';
import { unlessOutage } from './provider/provider-error.ts';
import type { Provider } from './provider/provider.ts';

type SignInOptions = {
  db: Kysely<Tables>;
  provider: Pick<Provider, 'authorizationUrl'>;
  finish: FinishSignIn;
  metrics: Pick<IdentityMetrics, 'countSignIn'>;
};

/** Who begins or ends a sign-in: a browser by its own short-lived cookie, and its session until now. */
type Visitor = { browserId: string | null; sessionId: string | null };

/** What a sign-in came to, and who asked for it. */
type SignedIn = Finished & Pick<PendingLogin, 'platform'>;

/** Who wants to be signed in: a browser, Android's web view, or a terminal by its request. */
type Asker = 'browser' | 'android' | TerminalRequest;

/** What the provider's redirect brought along. */
type ProviderAnswer = { state?: string; code?: string; error?: string; iss?: string };

/** Signs people in: sends them to the provider, and makes a session of what comes back. */
export function createSignIn({ db, provider, finish, metrics }: SignInOptions) {
  /**
   * Begins a sign-in, and gives the address at the provider to send the browser to.
   * Android ends the sign-in in another browser than it began in, so nothing ties it to one. A terminal's
   * is another sign-in beside the browser's own, which goes on.
   */
  async function begin(asker: Asker, visitor: Visitor): Promise<string> {
    const state = randomId();
    const codeVerifier = randomPKCECodeVerifier();
    const url = await unlessOutage(provider.authorizationUrl({ state, codeVerifier }));
    const terminal = typeof asker === 'string' ? null : asker;
    const platform = typeof asker === 'string' ? asker : 'terminal';
    await addPendingLogin(db, {
      state,
      codeVerifier,
      platform: platform === 'browser' ? null : platform,
      browserId: platform === 'android' ? null : visitor.browserId,
      earlierSessionId: terminal === null ? visitor.sessionId : null,
      terminal,
    });
    return url;
  }

  /**
   * Ends a sign-in with a new session. The state is judged first: with one that is not valid the code is
   * never redeemed. Contract 3, Login.
   *
   * A sign-in that fails is in the audit trail, once its pending login is spent: how many of those there
   * are is limited where they begin. A callback with any other state leaves no line, since there is no
   * end of those.
   * @throws `login_not_valid`, `login_cancelled`, `login_refused`, `token_exchange_failed`,
   * `account_without_email`, `provider_unavailable`.
   */
  async function complete(answer: ProviderAnswer, visitor: Visitor & Returning): Promise<SignedIn> {
    const { state } = answer;
    if (state === undefined || !isId(state)) throw problem('login_not_valid');
    const login = await takePendingLogin(db, { state, browserId: visitor.browserId });
    if (login === undefined) throw noPendingLogin(visitor);
    try {
      return { ...(await finish(login, answer, visitor)), platform: login.platform };
    } catch (error) {
      if (error instanceof ProblemError) {
        const details = { code: error.code, ...originOf(login, visitor) };
        await recordAudit(db, { action: 'sign_in_failed', actorId: null, userId: null, details });
      }
      throw error;
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
