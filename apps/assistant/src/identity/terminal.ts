import { createHash } from 'node:crypto';
import { isSameSecret, shortenCodeChallenge, SIGN_IN_STEP_MINUTES } from '@oselya/kit';
import { type Kysely, sql } from 'kysely';
import { problem } from '../errors.ts';
import type { Tables, TerminalRequest } from '../tables.ts';
import type { Sweep } from '../upkeep.ts';
import { randomId } from './cookies.ts';
import type { IdentityDeps } from './deps.ts';
import { endAuthSession } from './revocation.ts';
import type { ClientInfo } from './auth-sessions.ts';

/** Lifetime of a code. RFC 6749 §4.1.2 recommends a short one. */
const CODE_LIFETIME_SECONDS = 60;

/** Identifies a sign-in on the confirmation page. It is valid only in the browser that began the sign-in. */
type ConfirmationKey = { id: string; browserId: string | null };

/** The contents of the confirmation page. The terminal also shows `mark`, for comparison. */
export type TerminalRequestView = { name: string; port: number; mark: string };

/**
 * Creates the service that signs terminals in. The user confirms the sign-in in the browser. The terminal then receives
 * a code at its port and redeems the code with its verifier. RFC 8252 §7.3, RFC 7636;
 * docs/adr/0024-sign-in-of-the-terminal.md.
 */
export function createTerminalSignIns({ db, log }: IdentityDeps) {
  /** Ends an unused auth session. Keeps the tokens, because many providers keep one grant per browser. */
  async function endUnused(sessionId: string, reason: 'refused' | 'wrong_verifier') {
    const details = { platform: 'terminal', reason };
    const ended = await db
      .transaction()
      .execute((trx) => endAuthSession(trx, { id: sessionId }, { action: 'signed_out', details }));
    if (ended) log.info({ user_id: ended.userId, reason }, 'a terminal was not signed in');
  }

  async function findWaiting({ id, browserId }: ConfirmationKey) {
    const found = await db
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
    if (found === undefined) throw problem('terminal_request_not_valid');
    return found;
  }

  return {
    /**
     * Returns the contents of the confirmation page.
     * @throws ProblemError `terminal_request_not_valid`.
     */
    async find(confirmation: ConfirmationKey): Promise<TerminalRequestView> {
      const { email, display_name: name, port, code_challenge } = await findWaiting(confirmation);
      return {
        name: name === null ? email : `${name}, ${email}`,
        port,
        mark: shortenCodeChallenge(code_challenge),
      };
    },

    /**
     * Confirms a sign-in once, and returns the terminal's URL with a new code.
     * @throws ProblemError `terminal_request_not_valid`.
     */
    async confirm({ id, browserId }: ConfirmationKey): Promise<string> {
      const code = randomId();
      const confirmed = await db
        .updateTable('terminal_sign_ins')
        .set({
          code_sha256: sha256(code),
          expires_at: sql<Date>`now() + make_interval(secs => ${CODE_LIFETIME_SECONDS})`,
        })
        .where('id', '=', id)
        .where('browser_id', '=', browserId)
        .where('code_sha256', 'is', null)
        .where('expires_at', '>', sql<Date>`now()`)
        .returning(['port', 'state'])
        .executeTakeFirst();
      if (confirmed === undefined) throw problem('terminal_request_not_valid');
      return buildTerminalUrl(confirmed, { code });
    },

    /**
     * Ends the auth session of a denied sign-in, and returns the terminal's URL with the error. RFC 6749 §4.1.2.1.
     * @throws ProblemError `terminal_request_not_valid`.
     */
    async refuse(confirmation: ConfirmationKey): Promise<string> {
      const found = await findWaiting(confirmation);
      await endUnused(found.auth_session_id, 'refused');
      return buildTerminalUrl(found, { error: 'access_denied' });
    },

    /**
     * Redeems a code for the ID of its auth session. Each attempt spends the code, so a verifier can be guessed only once.
     * @throws ProblemError `terminal_code_not_valid`.
     */
    async redeem(
      { code, codeVerifier }: { code: string; codeVerifier: string },
      { userAgent, address }: ClientInfo,
    ): Promise<string> {
      const taken = await db
        .deleteFrom('terminal_sign_ins')
        .where('code_sha256', '=', sha256(code))
        .where('expires_at', '>', sql<Date>`now()`)
        .returning(['auth_session_id as id', 'code_challenge'])
        .executeTakeFirst();
      if (taken === undefined) throw problem('terminal_code_not_valid');
      if (!isSameSecret(sha256(codeVerifier), taken.code_challenge)) {
        await endUnused(taken.id, 'wrong_verifier');
        throw problem('terminal_code_not_valid');
      }
      await db
        .updateTable('user_auth_sessions')
        .set({ user_agent: userAgent, address })
        .where('id', '=', taken.id)
        .execute();
      return taken.id;
    },
  };
}

const sha256 = (text: string) => createHash('sha256').update(text).digest('base64url');

/** Builds the terminal's URL with the loopback IP, because `localhost` may resolve to another host. RFC 8252 §8.3. */
function buildTerminalUrl(
  { port, state }: { port: number; state: string },
  parameters: Record<string, string>,
): string {
  return `http://127.0.0.1:${port}/?${new URLSearchParams({ ...parameters, state }).toString()}`;
}

/** Stores a terminal's sign-in for confirmation. It expires with the browser cookie. */
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

/** Deletes the auth sessions of terminal sign-ins that expired before redemption. */
export const sweepTerminalSignIns: Sweep = (limit) => sql`
  delete from user_auth_sessions where id in (
    select s.id from terminal_sign_ins t join user_auth_sessions s on s.id = t.auth_session_id
    where t.expires_at <= now()
    limit ${limit} for update skip locked
  )`;
