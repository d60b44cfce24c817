import { SIGN_IN_STEP_MINUTES } from '@oselya/kit';
import { type Kysely, sql } from 'kysely';
import type { Sweep } from '../../upkeep.ts';
import type { Tables, TerminalRequest } from '../../tables.ts';
import type { ClientNote } from '../auth-sessions.sql.ts';

/** How long a code can be redeemed. RFC 6749 §4.1.2 wants it short. */
const CODE_SECONDS = 60;

/** Names a sign-in on the page that asks: it counts in the browser that began it alone. */
export type Asked = { id: string; browserId: string | null };

/**
 * Keeps a sign-in of a terminal until its person has agreed, for as long as the cookie of their browser that is set
 * with it.
 */
export async function addTerminalSignIn(
  db: Kysely<Tables>,
  signIn: { id: string; sessionId: string; browserId: string; terminal: TerminalRequest },
): Promise<void> {
  await db
    .insertInto('terminal_sign_ins')
    .values({
      id: signIn.id,
      auth_session_id: signIn.sessionId,
      browser_id: signIn.browserId,
      ...signIn.terminal,
      expires_at: sql<Date>`now() + make_interval(mins => ${SIGN_IN_STEP_MINUTES})`,
    })
    .execute();
}

/** A sign-in that waits for its person, and who they are; nothing where there is none. */
export function findTerminalSignIn(db: Kysely<Tables>, { id, browserId }: Asked) {
  return db
    .selectFrom('terminal_sign_ins as t')
    .innerJoin('user_auth_sessions as s', 's.id', 't.auth_session_id')
    .innerJoin('svc_users as u', 'u.id', 's.user_id')
    .where('t.id', '=', id)
    .where('t.browser_id', '=', browserId)
    .where('t.code_sha256', 'is', null)
    .where('t.expires_at', '>', sql<Date>`now()`)
    .select(['t.auth_session_id', 't.port', 't.state', 't.code_challenge'])
    .select(['u.email', 'u.display_name'])
    .executeTakeFirst();
}

/** Gives a sign-in its code, once; nothing where there is none that waits for one. */
export function confirmTerminalSignIn(
  db: Kysely<Tables>,
  { id, browserId, codeSha256 }: Asked & { codeSha256: string },
): Promise<{ port: number; state: string } | undefined> {
  return db
    .updateTable('terminal_sign_ins')
    .set({
      code_sha256: codeSha256,
      expires_at: sql<Date>`now() + make_interval(secs => ${CODE_SECONDS})`,
    })
    .where('id', '=', id)
    .where('browser_id', '=', browserId)
    .where('code_sha256', 'is', null)
    .where('expires_at', '>', sql<Date>`now()`)
    .returning(['port', 'state'])
    .executeTakeFirst();
}

/** Takes the sign-in of a code out, so that one request on one instance has it. */
export function takeTerminalSignIn(
  db: Kysely<Tables>,
  codeSha256: string,
): Promise<{ auth_session_id: string; code_challenge: string } | undefined> {
  return db
    .deleteFrom('terminal_sign_ins')
    .where('code_sha256', '=', codeSha256)
    .where('expires_at', '>', sql<Date>`now()`)
    .returning(['auth_session_id', 'code_challenge'])
    .executeTakeFirst();
}

/** Notes which terminal has a session, in the place of the browser that it was begun in. */
export async function noteClient(
  db: Kysely<Tables>,
  id: string,
  { userAgent, address }: ClientNote,
): Promise<void> {
  await db
    .updateTable('user_auth_sessions')
    .set({ user_agent: userAgent, address })
    .where('id', '=', id)
    .execute();
}

/**
 * Deletes the sessions that no terminal came for in time: nobody else knows their ids. It locks both rows and waits for
 * neither: whoever ends sessions locks these, then what refers to them, and whoever redeems a code the latter.
 */
export const sweepTerminalSignIns: Sweep = (limit) => sql`
  delete from user_auth_sessions where id in (
    select s.id from terminal_sign_ins t join user_auth_sessions s on s.id = t.auth_session_id
    where t.expires_at <= now()
    limit ${limit} for update skip locked
  )`;
