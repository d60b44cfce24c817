import type { Logger } from '@oselya/kit';
import type { Kysely, Transaction } from 'kysely';
import type { User } from '../access/permissions.ts';
import { recordAudit } from '../admin/audit.ts';
import { problem } from '../errors.ts';
import type { Tables } from '../tables.ts';
import {
  addSession,
  type ClientNote,
  deleteSession,
  type Lifetime,
  livingSessions,
} from './auth-sessions.sql.ts';
import { randomId } from './ids.ts';
import {
  invalidatedSince,
  latestInvalidation,
  type Moment,
  tellUserChanged,
} from './invalidation.sql.ts';
import type { IdentityMetrics } from './metrics.ts';
import type { PendingLogin } from './pending-logins.sql.ts';
import {
  isRefusal,
  outageAtSignIn,
  ProviderError,
  unlessOutage,
} from './provider/provider-error.ts';
import type { Provider, Tokens } from './provider/provider.ts';
import type { RevocationQueue } from './revocation-queue.ts';
import type { SessionTokens } from './session-tokens.ts';
import { saveUser } from './save-user.sql.ts';
import { addTerminalSignIn } from './terminal/repository.ts';

type FinishSignInOptions = {
  db: Kysely<Tables>;
  log: Logger;
  provider: Pick<Provider, 'prepare' | 'redeem' | 'fetchUser'>;
  tokens: SessionTokens;
  revocations: Pick<RevocationQueue, 'add' | 'wake'>;
  metrics: Pick<IdentityMetrics, 'countEnded'>;
  lifetime: Lifetime;
};

/** Who comes back from the provider: the browser's session until now, and what its owner knows it by. */
export type Returning = { sessionId: string | null; client: ClientNote };

/** What the provider's redirect brought along. */
type ProviderAnswer = { code?: string; error?: string; iss?: string };

/** Where a sign-in came from, for the audit trail. */
export const originOf = ({ platform }: PendingLogin, { client }: Pick<Returning, 'client'>) => ({
  platform: platform ?? 'browser',
  address: client.address,
});

/**
 * The sessions that a sign-in takes the place of: what the browser had when it began, and has now. An
 * Android sign-in ends in the system's browser, whose own session is not the application's; a terminal's
 * takes no place but its own.
 */
function earlierSessions({ platform, earlierSessionId }: PendingLogin, { sessionId }: Returning) {
  if (platform === 'terminal') return new Set<string>();
  return new Set(platform === 'android' ? [earlierSessionId] : [earlierSessionId, sessionId]);
}

/** What a sign-in came to: its session, and what a terminal's waits for its person by. */
export type Finished = { sessionId: string; terminalSignInId: string | null };

/** Finishes a sign-in. See createFinishSignIn. */
export type FinishSignIn = ReturnType<typeof createFinishSignIn>;

/**
 * Finishes sign-ins whose pending login was taken: redeems the code, asks who came, and stores the
 * session. The browser's earlier one ends with it, and a terminal's waits from then on for its person to
 * agree. Specification 000, Auth session.
 *
 * The earlier session's tokens are not revoked at the provider: many keep one grant for all sign-ins
 * of a browser, and would end the new one too.
 * A user who is signed out everywhere while the sign-in is on its way does not come in by it.
 * @returns A function that throws what `complete` of createSignIn does, but for the first.
 */
export function createFinishSignIn({
  db,
  log,
  provider,
  tokens,
  revocations,
  metrics,
  lifetime,
}: FinishSignInOptions) {
  async function finish(
    login: PendingLogin,
    { code, error, iss }: ProviderAnswer,
    visitor: Returning,
  ): Promise<Finished> {
    if (error !== undefined) {
      throw problem(error === 'access_denied' ? 'login_cancelled' : 'login_refused');
    }
    if (code === undefined) throw problem('login_not_valid');

    // While there is nothing to verify its answer with, no code is spent.
    await unlessOutage(provider.prepare());
    const began = await latestInvalidation(db);
    const { subject, ...redeemed } = await redeem(code, iss, login.codeVerifier);
    const sessionId = randomId();
    try {
      const user = await fetchUser(redeemed.accessToken);
      if (subject !== undefined && subject !== user.id) throw problem('token_exchange_failed');
      return {
        sessionId,
        terminalSignInId: await enter({ sessionId, login, visitor, began, redeemed, user }),
      };
    } catch (failure) {
      await giveUp(sessionId, redeemed, [visitor.sessionId, login.earlierSessionId]);
      throw failure;
    }
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

  async function fetchUser(accessToken: string): Promise<User> {
    try {
      return await provider.fetchUser(accessToken);
    } catch (error) {
      throw isRefusal(error) ? problem('login_refused', { cause: error }) : outageAtSignIn(error);
    }
  }

  /** Stores the session, and gives what names it to its person where it is for a terminal. */
  async function enter({
    sessionId,
    login,
    visitor,
    began,
    redeemed,
    user,
  }: {
    sessionId: string;
    login: PendingLogin;
    visitor: Returning;
    began: Moment;
    redeemed: Tokens;
    user: User;
  }): Promise<string | null> {
    const session = { id: sessionId, userId: user.id };
    const sealed = await tokens.seal(redeemed, session);
    const { replaced, terminalSignInId } = await db.transaction().execute(async (trx) => {
      const invalidated = await invalidatedSince(trx, {
        userId: user.id,
        providerSessionId: redeemed.providerSessionId,
        began,
      });
      if (invalidated.has('sessions')) throw problem('login_refused');
      const ended = await endAll(trx, earlierSessions(login, visitor), 'replaced');
      const isCurrent = !invalidated.has('access');
      const generation = await saveUser(trx, user, () => isCurrent);
      const checked = isCurrent ? { at: began.readAt, generation } : undefined;
      await addSession(trx, { ...session, ...sealed, checked, client: visitor.client });
      const details = originOf(login, visitor);
      await recordAudit(trx, { action: 'signed_in', actorId: user.id, userId: user.id, details });
      return { replaced: ended, terminalSignInId: await keepForTerminal(trx, sessionId, login) };
    });
    metrics.countEnded('replaced', replaced);
    log.info({ user_id: user.id, platform: login.platform ?? 'browser' }, 'signed in');
    return terminalSignInId;
  }

  /**
   * Ends what there may be of a sign-in that came to nothing: its session, of which nobody has the cookie, and its
   * tokens, which are revoked, but for those of a browser whose session goes on, since they may share its grant. It
   * never fails.
   */
  async function giveUp(
    sessionId: string,
    redeemed: Tokens,
    earlier: readonly (string | null)[],
  ): Promise<void> {
    try {
      // It was stored after all where the answer to that was lost.
      await db.transaction().execute((trx) => endAll(trx, [sessionId], 'sign_in_failed'));
      const ids = earlier.filter((id) => id !== null);
      if ((await livingSessions(db, ids, lifetime)).size > 0) return;
      // No session has them: the place is only for the vault.
      const nowhere = { id: randomId(), userId: '' };
      await revocations.add(db, [{ ...nowhere, ...(await tokens.seal(redeemed, nowhere)) }]);
      revocations.wake();
    } catch (error) {
      log.warn(
        { err: error },
        'a failed sign-in may have left its session, and its tokens are not revoked at the provider',
      );
    }
  }

  return finish;
}

/** Keeps the session of a terminal's sign-in until its person has agreed in the browser that began it. */
async function keepForTerminal(
  trx: Transaction<Tables>,
  sessionId: string,
  { terminal, browserId }: PendingLogin,
): Promise<string | null> {
  if (terminal === null) return null;
  if (browserId === null) throw problem('login_not_valid');
  const id = randomId();
  await addTerminalSignIn(trx, { id, sessionId, browserId, terminal });
  return id;
}

/** Ends those sessions that there are, and gives how many that was. */
async function endAll(
  trx: Transaction<Tables>,
  ids: Iterable<string | null>,
  reason: 'replaced' | 'sign_in_failed',
): Promise<number> {
  let count = 0;
  for (const id of ids) {
    const ended = id === null ? undefined : await deleteSession(trx, id);
    if (ended === undefined) continue;
    const { userId } = ended;
    const details = { reason };
    await recordAudit(trx, { action: 'signed_out', actorId: userId, userId, details });
    await tellUserChanged(trx, userId);
    count += 1;
  }
  return count;
}
