import { fileURLToPath } from 'node:url';
import { openTestDatabase } from '@oselya/db/testing';
import type { TurnKey } from '../../src/chat/turn.ts';
import { insertTurn } from '../../src/chat/turns.sql.ts';
import type { Tables } from '../../src/tables.ts';
import { account } from '../helpers/sockets.ts';

const folder = fileURLToPath(new URL('../../migrations', import.meta.url));

/** A database with somebody's sessions and turns, which no assistant runs but what a test makes of one. */
export async function openTurns() {
  const { db, url } = await openTestDatabase<Tables>([{ component: 'assistant', folder }]);
  const user = account('u-olena');
  await db
    .insertInto('svc_users')
    .values({ id: user.id, email: user.email, display_name: 'Олена' })
    .execute();

  async function newSession(): Promise<string> {
    const session = { user_id: user.id, profile_id: 'default', name: 'Пошук' };
    const { id } = await db
      .insertInto('conversation_sessions')
      .values(session)
      .returning('id')
      .executeTakeFirstOrThrow();
    return id;
  }

  /** Begins the answer to a question of a session. */
  async function startTurn(sessionId: string): Promise<TurnKey> {
    const question = { session_id: sessionId, role: 'user', content: 'Що є?' };
    const { id: questionId } = await db
      .insertInto('conversation_messages')
      .values(question)
      .returning('id')
      .executeTakeFirstOrThrow();
    const turn = { session_id: sessionId, user_id: user.id, question_id: questionId };
    const { id, position } = await db.transaction().execute((trx) => insertTurn(trx, turn));
    return { turnId: id, sessionId, position };
  }

  /** Whether connections wait for each other's locks: the embedded database has one. */
  const hasLocks = url !== undefined;
  return { db, hasLocks, user, newSession, startTurn };
}
