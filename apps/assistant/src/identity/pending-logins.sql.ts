import { SIGN_IN_STEP_MINUTES } from '@oselya/kit';
import { type Kysely, sql } from 'kysely';
import type { Sweep } from '../upkeep.ts';
import type { Tables, TerminalRequest } from '../tables.ts';

/** A sign-in that was begun. Contract 3, Login. */
export type PendingLogin = {
  state: string;
  codeVerifier: string;
  platform: 'android' | 'terminal' | null;
  browserId: string | null;
  earlierSessionId: string | null;
  /** What a terminal asked with, for the platform `terminal` alone. */
  terminal: TerminalRequest | null;
};

/** Sign-ins that one browser may have open at once, in as many tabs; the oldest make room. */
const MAX_PER_BROWSER = 10;

/** Deletes pending logins that nobody ended in time. */
export const sweepPendingLogins: Sweep = (limit) => sql`
  delete from pending_logins where state in (
    select state from pending_logins where expires_at <= now()
    limit ${limit} for update skip locked
  )`;

/** Keeps a pending login for ten minutes. */
export async function addPendingLogin(db: Kysely<Tables>, login: PendingLogin): Promise<void> {
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

/**
 * Takes a pending login out, so that one callback on one instance has it. A state that is unknown,
 * expired, or another browser's gives nothing, and a stranger's attempt leaves the login where it is.
 */
export async function takePendingLogin(
  db: Kysely<Tables>,
  { state, browserId }: { state: string; browserId: string | null },
): Promise<PendingLogin | undefined> {
  const row = await db
    .deleteFrom('pending_logins')
    .where('state', '=', state)
    .where('expires_at', '>', sql<Date>`now()`)
    .where((where) =>
      where.or([where('browser_id', 'is', null), where('browser_id', '=', browserId)]),
    )
    .returningAll()
    .executeTakeFirst();
  return (
    row && {
      state: row.state,
      codeVerifier: row.code_verifier,
      platform: row.platform,
      browserId: row.browser_id,
      earlierSessionId: row.earlier_session_id,
      terminal: row.terminal,
    }
  );
}
