import { type Kysely, sql } from 'kysely';
import type { Tables } from '../tables.ts';
import type { IdentityDeps } from './deps.ts';
import { isRejection, ProviderError } from './provider/transport.ts';
import type { EndedAuthSession } from './revocation.ts';

const MAX_BATCH_SIZE = 4;

/** With the default timeout, the last attempt is half an hour after the first. */
const MAX_ATTEMPTS = 6;

const POLL_INTERVAL_MS = 30_000;

type QueuedSession = Omit<EndedAuthSession, 'id_token_enc'> & {
  revocationId: number;
  attempts: number;
};

export type TokenRevocation = ReturnType<typeof createTokenRevocation>;

/**
 * Creates the background task that revokes the tokens of ended auth sessions at the provider (RFC 7009). The encrypted
 * tokens are queued in the database. Attempts that fail with `unavailable` are retried with exponential backoff from at
 * least one minute.
 */
export function createTokenRevocation({ db, log, provider, vault, config }: IdentityDeps) {
  // The delay is longer than discovery and both calls, so no other process claims the row during them.
  const retrySeconds = Math.max(60, (4 * config.IDP_TIMEOUT_MS) / 1000);
  const closeController = new AbortController();
  let currentRun = Promise.resolve();
  let timer: NodeJS.Timeout | undefined;

  async function revokeAll(): Promise<void> {
    try {
      while (!closeController.signal.aborted) {
        const claimedSessions = await claimDueSessions(db, retrySeconds);
        if (claimedSessions.length === 0) return;
        await Promise.all(claimedSessions.map(revokeSession));
      }
    } catch (error) {
      log.warn({ err: error }, 'tokens of ended sessions could not be revoked; they stay queued');
    }
  }

  async function revokeSession(session: QueuedSession): Promise<void> {
    const results = await Promise.all([
      revokeToken(session, 'refresh_token'),
      revokeToken(session, 'access_token'),
    ]);
    if (session.attempts < MAX_ATTEMPTS && results.includes('retry')) return;
    await db.deleteFrom('token_revocations').where('id', '=', session.revocationId).execute();
  }

  async function revokeToken(
    session: QueuedSession,
    kind: 'access_token' | 'refresh_token',
  ): Promise<'done' | 'retry'> {
    try {
      const token = await vault.open(session, `${kind}_enc`);
      if (token !== '') await provider.revoke(token, kind);
      return 'done';
    } catch (error) {
      log.warn({ err: error }, 'a token could not be revoked at the provider');
      return error instanceof ProviderError && !isRejection(error) ? 'retry' : 'done';
    }
  }

  function wake(): void {
    currentRun = currentRun.then(revokeAll);
  }

  return {
    wake,
    /** Starts polling, which finds due retries and tokens that a crashed process left. */
    start(): void {
      timer = setInterval(wake, POLL_INTERVAL_MS).unref();
      wake();
    },
    /** Stops polling and waits for calls in progress. */
    async close(): Promise<void> {
      closeController.abort();
      clearInterval(timer);
      await currentRun;
    },
  };
}

/** Queues the tokens of auth sessions in the transaction that ends them. Callers call `wake` after the commit. */
export async function queueTokenRevocation(
  trx: Kysely<Tables>,
  sessions: readonly EndedAuthSession[],
): Promise<void> {
  const listColumn = (name: keyof EndedAuthSession) => sessions.map((session) => session[name]);
  await sql`
    insert into token_revocations (session_id, user_id, access_token_enc, refresh_token_enc)
    select * from unnest(${listColumn('id')}::text[], ${listColumn('user_id')}::text[],
      ${listColumn('access_token_enc')}::text[], ${listColumn('refresh_token_enc')}::text[])`.execute(
    trx,
  );
}

/** Claims due rows by postponing them. The row of a crashed process becomes due again. */
async function claimDueSessions(
  db: Kysely<Tables>,
  retrySeconds: number,
): Promise<QueuedSession[]> {
  const { rows } = await sql<QueuedSession>`
    update token_revocations
    set attempts = attempts + 1,
      due_at = now() + make_interval(secs => ${retrySeconds}::float8 * power(2, attempts))
    where id in (
      select id from token_revocations where due_at <= now()
      order by due_at limit ${MAX_BATCH_SIZE} for update skip locked
    )
    returning id as "revocationId", session_id as id, user_id, access_token_enc,
      refresh_token_enc, attempts`.execute(db);
  return rows;
}
