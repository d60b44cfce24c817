import type { Logger } from '@oselya/kit';
import type { Kysely } from 'kysely';
import type { Tables } from '../tables.ts';
import { recordAudit } from '../audit/index.ts';
import { deleteSession } from './auth-sessions.sql.ts';
import { tellUserChanged } from './invalidation.sql.ts';
import type { IdentityMetrics } from './metrics.ts';
import type { Provider } from './provider/provider.ts';
import type { RevocationQueue } from './revocation-queue.ts';
import type { SessionTokens } from './session-tokens.ts';

/** Gives where the browser goes to sign out at the provider too; nothing where it need not. */
type SignOut = (sessionId: string) => Promise<string | undefined>;

type Ended = NonNullable<Awaited<ReturnType<typeof deleteSession>>>;

/** Signs out: the session ends at once, and its tokens are revoked at the provider after the answer. */
export function createSignOut({
  db,
  log,
  revocations,
  metrics,
  provider,
  tokens,
}: {
  db: Kysely<Tables>;
  log: Logger;
  revocations: Pick<RevocationQueue, 'add' | 'wake'>;
  metrics: Pick<IdentityMetrics, 'countEnded'>;
  /** What ends the browser's session there too; nothing where IDP_END_SESSION is off. */
  provider: Pick<Provider, 'endSessionUrl'> | undefined;
  tokens: Pick<SessionTokens, 'openIdToken'>;
}): SignOut {
  async function endSessionUrl(session: Ended): Promise<string | undefined> {
    try {
      return await provider?.endSessionUrl(await tokens.openIdToken(session));
    } catch (error) {
      log.warn({ err: error }, 'signed out here, and not at the provider');
      return undefined;
    }
  }

  return async (sessionId) => {
    const session = await db.transaction().execute(async (trx) => {
      const ended = await deleteSession(trx, sessionId);
      if (ended === undefined) return undefined;
      const { userId } = ended;
      await recordAudit(trx, { action: 'signed_out', actorId: userId, userId });
      await tellUserChanged(trx, userId);
      await revocations.add(trx, [ended]);
      return ended;
    });
    if (session === undefined) return undefined;
    metrics.countEnded('signed_out');
    log.info({ user_id: session.userId }, 'signed out');
    revocations.wake();
    return endSessionUrl(session);
  };
}
