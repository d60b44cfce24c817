import { problem } from '../errors.ts';
import type { MessageId } from '../sockets/frames.ts';
import type { UserSocket } from '../sockets/message-type.ts';
import type { Chat } from './chat.ts';
import type { Listener } from './hub.ts';

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
    const sessions = sockets.get(socket) ?? watch(socket);
    end(socket, sessionId);
    if (sessions.size >= MAX_OPEN) {
      throw problem('too_many_open', {
        detail: `This connection has ${MAX_OPEN} sessions open, which is the most. Close one with \`session.close\`.`,
      });
    }
    const open: Open = {
      listener: chat.listen(sessionId, (frame) => {
        const { asked } = open;
        socket.send(asked?.turnId === frame.turn_id ? { ...frame, id: asked.messageId } : frame);
      }),
      asked: undefined,
    };
    sessions.set(sessionId, open);
    return open;
  }

  function watch(socket: UserSocket): Map<string, Open> {
    const sessions = new Map<string, Open>();
    sockets.set(socket, sessions);
    socket.onClose(() => {
      for (const { listener } of sessions.values()) listener.end();
    });
    return sessions;
  }

  function end(socket: UserSocket, sessionId: string): void {
    const sessions = sockets.get(socket);
    sessions?.get(sessionId)?.listener.end();
    sessions?.delete(sessionId);
  }

  return {
    begin,
    end,

    /**
     * Does what begins a turn, and listens to it: who speaks in a session hears what is answered.
     * @param work Is given what is to be told of the turn as soon as it has begun.
     */
    async during<Result>(
      socket: UserSocket,
      { sessionId, messageId }: { sessionId: string; messageId: MessageId | undefined },
      work: (began: (turnId: string) => void) => Promise<Result>,
    ): Promise<Result> {
      const heard = sockets.get(socket)?.get(sessionId);
      const open = heard ?? begin(socket, sessionId);
      try {
        const result = await work((turnId) => {
          if (messageId !== undefined) open.asked = { turnId, messageId };
        });
        if (heard === undefined) open.listener.begin(await chat.earlier(sessionId));
        return result;
      } catch (error) {
        if (heard === undefined) end(socket, sessionId);
        throw error;
      }
    },
  };
}
