import type { Database } from '@oselya/db';
import type { Logger } from '@oselya/kit';
import { userParts, type UnreadSession, type UserPart } from '@oselya/protocol';
import { type Kysely, sql } from 'kysely';
import type { Tables } from '../tables.ts';
import type { UserSocket } from './dispatch.ts';

/** Channel on which triggers notify about changes. The payload is the changed part and the user ID. */
const USER_CHANGES_CHANNEL = 'assistant_user_changes';

/** Time during which the changes of a user are collected, because an answer changes its session several times. */
const COLLECT_MS = 200;

/** The feed of changes for subscribed sockets. See {@link openUserFeed}. */
export type UserFeed = Awaited<ReturnType<typeof openUserFeed>>;

/**
 * Opens the feed that tells the sockets of a user about changes by other clients and processes.
 * @throws DatabaseError DATABASE_UNREACHABLE.
 */
export async function openUserFeed({
  db,
  listen,
  log,
}: Pick<Database<Tables>, 'db' | 'listen'> & { log: Pick<Logger, 'warn'> }) {
  const socketsByUser = new Map<string, Set<UserSocket>>();
  const changedParts = new Map<string, Set<UserPart>>();

  /** An empty payload means that notifications may have been lost. */
  const stopListening = await listen(USER_CHANGES_CHANNEL, (payload) => {
    const separator = payload.indexOf(' ');
    if (payload === '') for (const userId of socketsByUser.keys()) collect(userId, userParts);
    else collect(payload.slice(separator + 1), [payload.slice(0, separator) as UserPart]);
  });

  function collect(userId: string, parts: readonly UserPart[]): void {
    if (!socketsByUser.has(userId)) return;
    const collectedParts = changedParts.get(userId);
    if (collectedParts === undefined) setTimeout(() => void send(userId), COLLECT_MS).unref();
    changedParts.set(userId, new Set([...(collectedParts ?? []), ...parts]));
  }

  async function send(userId: string): Promise<void> {
    const parts = changedParts.get(userId) ?? new Set();
    changedParts.delete(userId);
    try {
      const unread = parts.has('sessions') ? await listUnread(db, userId) : undefined;
      for (const socket of socketsByUser.get(userId) ?? []) {
        for (const part of parts) {
          const counts = part === 'sessions' && unread !== undefined ? { unread } : {};
          socket.send({ type: 'user.changed', part, ...counts });
        }
      }
    } catch (error) {
      log.warn({ err: error }, 'the unread messages of a user could not be counted');
    }
  }

  return {
    /** Sends the changes of a user to a socket until the socket closes. Returns the sessions with unread messages. */
    async subscribe(userId: string, socket: UserSocket): Promise<UnreadSession[]> {
      if (!socket.isOpen()) return [];
      const sockets = socketsByUser.get(userId) ?? new Set();
      socketsByUser.set(userId, sockets.add(socket));
      socket.addCloseListener(() => {
        sockets.delete(socket);
        if (sockets.size === 0 && socketsByUser.get(userId) === sockets)
          socketsByUser.delete(userId);
      });
      return listUnread(db, userId);
    },
    close: stopListening,
  };
}

/** Returns the sessions of a user with messages of the assistant after the user last read them. */
async function listUnread(db: Kysely<Tables>, userId: string): Promise<UnreadSession[]> {
  const { rows } = await sql<UnreadSession>`
    select session_id, count(*) as count from conversation_sessions as sessions
    join conversation_messages as messages on messages.session_id = sessions.id
    where sessions.user_id = ${userId} and last_active > read_at
      and role = 'assistant' and messages.created_at > read_at
    group by session_id order by max(messages.created_at) desc`.execute(db);
  return rows;
}
