import { problem } from '../errors.ts';
import type { MessageId } from '../sockets/frames.ts';
import type { UserSocket } from '../sockets/message-type.ts';
import type { Chat } from './chat.ts';
import type { SessionFrame, TurnFrame } from './events.ts';
import type { Earlier, Listener } from './hub.ts';
import type { TurnKey } from './turn.ts';

/** How many sessions one socket may listen to. */
const MAX_OPEN = 100;

/** A session that a socket listens to. */
type Open = {
  listener: Listener;
  /** The turn that a message of this socket began, and the id that its events repeat. */
  asked: { turnId: string; messageId: MessageId } | undefined;
  /** What happens while the session is being opened again; undefined while it is not. */
  heldBack: (TurnFrame | SessionFrame)[] | undefined;
};

/** What one socket listens to, by session. */
type Heard = { sessions: Map<string, Open>; isClosed: boolean };

/** What sockets listen to: a session that is opened or spoken in, until it is closed or the socket is. */
export function createListening(chat: Pick<Chat, 'listen' | 'earlier'>) {
  const sockets = new WeakMap<UserSocket, Heard>();

  /** Asks for the socket's end once, and not for each session: it may open and close any number of them. */
  function heardBy(socket: UserSocket): Heard {
    const known = sockets.get(socket);
    if (known !== undefined) return known;
    const heard: Heard = { sessions: new Map(), isClosed: false };
    sockets.set(socket, heard);
    socket.onClose(() => {
      heard.isClosed = true;
      for (const { listener } of heard.sessions.values()) listener.end();
      heard.sessions.clear();
    });
    return heard;
  }

  /** @throws ProblemError `too_many_open`, unless the socket listens to the session already. */
  function listen(socket: UserSocket, sessionId: string): Open {
    const before = heardBy(socket).sessions.get(sessionId);
    if (before === undefined) checkRoom(socket);
    const open: Open = {
      listener: chat.listen(sessionId, (frame) => {
        if (open.heldBack === undefined) tell(socket, open, frame);
        else open.heldBack.push(frame);
      }),
      asked: before?.asked,
      heldBack: undefined,
    };
    return open;
  }

  /** Puts a listening in the place of the one before. */
  function keep(socket: UserSocket, sessionId: string, open: Open): void {
    end(socket, sessionId);
    const { sessions, isClosed } = heardBy(socket);
    // It may have closed while the message was being handled.
    if (isClosed) open.listener.end();
    else sessions.set(sessionId, open);
  }

  /**
   * Listens to a session anew; nothing is sent before the listener begins.
   * @throws ProblemError `too_many_open`.
   */
  function begin(socket: UserSocket, sessionId: string): Open {
    const open = listen(socket, sessionId);
    keep(socket, sessionId, open);
    return open;
  }

  function end(socket: UserSocket, sessionId: string): void {
    const sessions = sockets.get(socket)?.sessions;
    sessions?.get(sessionId)?.listener.end();
    sessions?.delete(sessionId);
  }

  /** @throws ProblemError `too_many_open`. */
  function checkRoom(socket: UserSocket): void {
    if (heardBy(socket).sessions.size < MAX_OPEN) return;
    throw problem('too_many_open', {
      detail: `This connection has ${MAX_OPEN} sessions open, which is the most. Close one with \`session.close\`.`,
    });
  }

  return {
    begin,
    end,
    checkRoom,

    /**
     * Opens a session, which may be open: what happens from here on is told after what is read of it. Where
     * it cannot be read it is heard as before, if it was, without a gap.
     * @param read Answers, and gives what happened earlier.
     * @throws What the reading throws; and ProblemError `too_many_open`, before it.
     */
    async open(
      socket: UserSocket,
      sessionId: string,
      read: () => Promise<Earlier | undefined>,
    ): Promise<void> {
      const before = sockets.get(socket)?.sessions.get(sessionId);
      const open = listen(socket, sessionId);
      if (before !== undefined) before.heldBack = [];
      const earlier = await read().catch((error: unknown) => {
        open.listener.end();
        if (before !== undefined) goOn(socket, before);
        throw error;
      });
      keep(socket, sessionId, open);
      open.listener.begin(earlier);
    },

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
      const heard = sockets.get(socket)?.sessions.get(sessionId);
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

function tell(socket: UserSocket, { asked }: Open, frame: TurnFrame | SessionFrame): void {
  const isAsked = 'turn_id' in frame && asked?.turnId === frame.turn_id;
  socket.send(isAsked ? { ...frame, id: asked.messageId } : frame);
}

/** Tells what was held back, and from here on what happens. */
function goOn(socket: UserSocket, open: Open): void {
  for (const frame of open.heldBack ?? []) tell(socket, open, frame);
  open.heldBack = undefined;
}
