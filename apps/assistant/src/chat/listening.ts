import { problem } from '../errors.ts';
import type { MessageId } from '../sockets/frames.ts';
import type { UserSocket } from '../sockets/message-type.ts';
import type { Chat } from './chat.ts';
import type { Listener } from './hub.ts';
import type { TurnKey } from './turn.ts';

/** How many sessions one socket may listen to. */
const MAX_OPEN = 100;

/** A session that a socket listens to. */
type Open = {
  listener: Listener;
  /** The turn that a message of this socket began, and the id that its events repeat. */
  asked: { turnId: string; messageId: MessageId } | undefined;
};

/** What sockets listen to: a session that is opened or spoken in, until it is closed or the socket is. */
export function createListening(chat: Pick<Chat, 'listen' | 'earlier'>) {
  const sockets = new WeakMap<UserSocket, Map<string, Open>>();

  /** Listens to a session anew; nothing is sent before the listener begins. */
  function begin(socket: UserSocket, sessionId: string): Open {
    const sessions = sockets.get(socket) ?? keep(socket);
    const before = sessions.get(sessionId);
    end(socket, sessionId);
    checkRoom(socket);
    const open: Open = {
      listener: chat.listen(sessionId, (frame) => {
        const { asked } = open;
        socket.send(asked?.turnId === frame.turn_id ? { ...frame, id: asked.messageId } : frame);
      }),
      asked: before?.asked,
    };
    sessions.set(sessionId, open);
    // It may have closed while the message was being handled.
    socket.onClose(() => open.listener.end());
    return open;
  }

  function keep(socket: UserSocket): Map<string, Open> {
    const sessions = new Map<string, Open>();
    sockets.set(socket, sessions);
    return sessions;
  }

  function end(socket: UserSocket, sessionId: string): void {
    const sessions = sockets.get(socket);
    sessions?.get(sessionId)?.listener.end();
    sessions?.delete(sessionId);
  }

  /** @throws ProblemError `too_many_open`. */
  function checkRoom(socket: UserSocket): void {
    if ((sockets.get(socket)?.size ?? 0) < MAX_OPEN) return;
    throw problem('too_many_open', {
      detail: `This connection has ${MAX_OPEN} sessions open, which is the most. Close one with \`session.close\`.`,
    });
  }

  return {
    begin,
    end,
    checkRoom,

    /**
     * Does what begins a turn, and listens to it: who speaks in a session hears what is answered.
     * @param work Is given what is to be told of the turn as soon as it has begun.
     * @throws What the work throws; and ProblemError `too_many_open`, before the work.
     */
    async during<Result>(
      socket: UserSocket,
      { sessionId, messageId }: { sessionId: string; messageId: MessageId | undefined },
      work: (began: (key: TurnKey) => void) => Promise<Result>,
    ): Promise<Result> {
      const heard = sockets.get(socket)?.get(sessionId);
      const open = heard ?? begin(socket, sessionId);
      try {
        let hasBegun = heard !== undefined;
        const result = await work((key) => {
          if (messageId !== undefined) open.asked = { turnId: key.turnId, messageId };
          if (hasBegun) return;
          hasBegun = true;
          open.listener.begin({ key, after: 0, knowsEnd: false, events: [] });
        });
        if (!hasBegun) open.listener.begin(await chat.earlier(sessionId));
        return result;
      } catch (error) {
        if (heard === undefined) end(socket, sessionId);
        throw error;
      }
    },
  };
}
