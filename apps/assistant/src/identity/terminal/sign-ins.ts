import { createHash } from 'node:crypto';
import { isSameSecret, type Logger, markOf } from '@oselya/kit';
import type { Kysely } from 'kysely';
import { recordAudit } from '../../admin/audit.ts';
import { problem } from '../../errors.ts';
import type { Tables, TerminalRequest } from '../../tables.ts';
import { type ClientNote, deleteSession } from '../auth-sessions.sql.ts';
import { randomId } from '../ids.ts';
import {
  type Asked,
  confirmTerminalSignIn,
  findTerminalSignIn,
  noteClient,
  takeTerminalSignIn,
} from './repository.ts';

/** A sign-in that waits for its person to agree. */
export type Question = Pick<TerminalRequest, 'port'> & {
  /** The person as the provider described them. */
  name: string;
  /** Shown in the terminal as well, so that they can be compared. */
  mark: string;
};

/** Hands the session of a finished sign-in over to the terminal that asked for it. */
export type TerminalSignIns = ReturnType<typeof createTerminalSignIns>;

/**
 * Hands sessions over to terminals: the session of a finished sign-in waits until the person agrees in the
 * browser, the terminal gets a code at its port, and redeems that with its verifier. RFC 8252 §7.3,
 * RFC 7636; docs/adr/0024-sign-in-of-the-terminal.md.
 *
 * The tokens of a sign-in that is refused are not revoked at the provider: many keep one grant for all
 * sign-ins of a browser, whose own would end with it.
 */
export function createTerminalSignIns({ db, log }: { db: Kysely<Tables>; log: Logger }) {
  async function endSession(sessionId: string, reason: 'refused' | 'wrong_verifier') {
    await db.transaction().execute(async (trx) => {
      const ended = await deleteSession(trx, sessionId);
      if (ended === undefined) return;
      const { userId } = ended;
      const details = { platform: 'terminal', reason };
      await recordAudit(trx, { action: 'signed_out', actorId: userId, userId, details });
      log.info({ user_id: userId, reason }, 'a terminal was not signed in');
    });
  }

  return {
    /**
     * What the person is asked.
     * @throws ProblemError `terminal_request_not_valid`.
     */
    async find(asked: Asked): Promise<Question> {
      const found = await findTerminalSignIn(db, asked);
      if (found === undefined) throw problem('terminal_request_not_valid');
      const { email, display_name: name, port, code_challenge: challenge } = found;
      return {
        name: name === null ? email : `${name}, ${email}`,
        port,
        mark: markOf(challenge),
      };
    },

    /**
     * The person agrees.
     * @returns Where their browser brings the code to: a server of their own machine.
     * @throws ProblemError `terminal_request_not_valid`.
     */
    async confirm(asked: Asked): Promise<string> {
      const code = randomId();
      const confirmed = await confirmTerminalSignIn(db, { ...asked, codeSha256: sha256(code) });
      if (confirmed === undefined) throw problem('terminal_request_not_valid');
      return addressOf(confirmed, { code });
    },

    /**
     * The person does not agree, and the session ends.
     * @returns Where the terminal is told so. RFC 6749 §4.1.2.1.
     * @throws ProblemError `terminal_request_not_valid`.
     */
    async refuse(asked: Asked): Promise<string> {
      const found = await findTerminalSignIn(db, asked);
      if (found === undefined) throw problem('terminal_request_not_valid');
      await endSession(found.auth_session_id, 'refused');
      return addressOf(found, { error: 'access_denied' });
    },

    /**
     * Gives the session of a code to the terminal that proves to be the one that asked. A code is spent by
     * whoever brings it, so that a verifier can be guessed once.
     * @returns The session's id.
     * @throws ProblemError `terminal_code_not_valid`.
     */
    async redeem(
      { code, codeVerifier }: { code: string; codeVerifier: string },
      client: ClientNote,
    ): Promise<string> {
      const taken = await takeTerminalSignIn(db, sha256(code));
      if (taken === undefined) throw problem('terminal_code_not_valid');
      const { auth_session_id: sessionId, code_challenge: challenge } = taken;
      if (!isSameSecret(sha256(codeVerifier), challenge)) {
        await endSession(sessionId, 'wrong_verifier');
        throw problem('terminal_code_not_valid');
      }
      await noteClient(db, sessionId, client);
      return sessionId;
    },
  };
}

const sha256 = (text: string) => createHash('sha256').update(text).digest('base64url');

/** The address itself, not `localhost`, which may lead elsewhere. RFC 8252 §8.3. */
function addressOf(
  { port, state }: { port: number; state: string },
  answer: Record<string, string>,
): string {
  return `http://127.0.0.1:${port}/?${new URLSearchParams({ ...answer, state }).toString()}`;
}
