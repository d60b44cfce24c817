import { setTimeout as sleep } from 'node:timers/promises';
import type { Logger } from '@oselya/kit';
import type { Kysely } from 'kysely';
import type { Tables } from '../tables.ts';
import { recordAudit } from '../admin/audit.ts';
import { deleteSession } from './auth-sessions.sql.ts';
import { tellUserChanged } from './invalidation.sql.ts';
import type { IdentityMetrics } from './metrics.ts';
import { ProviderError } from './provider/provider-error.ts';
import type { Provider } from './provider/provider.ts';
import type { RevocationQueue } from './revocation-queue.ts';
import type { SessionTokens } from './session-tokens.ts';

/** What discovery gets where the provider has not been asked for it yet: a sign-out must not hang with it. */
const DISCOVERY_WAIT_MS = 1000;

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
    if (provider === undefined) return undefined;
    try {
      const url = provider.endSessionUrl(await tokens.openIdToken(session));
      return await Promise.race([url, tooLate()]);
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

async function tooLate(): Promise<never> {
  await sleep(DISCOVERY_WAIT_MS, undefined, { ref: false });
  throw new ProviderError('unavailable', `discovery takes longer than ${DISCOVERY_WAIT_MS} ms`);
}
