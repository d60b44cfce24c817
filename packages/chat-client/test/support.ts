import { createServer } from 'node:http';
import type { TestContext } from 'node:test';
import { listen } from '@oselya/testing';
import { type WebSocket, WebSocketServer } from 'ws';
import {
  type StreamedAnswer,
  type ChatClient,
  ChatError,
  openChat,
  reconnectDelayMs,
  type ConnectionStatus,
  type AnswerEvent,
} from '../src/client.ts';
import { checkFrame, createCookieSocketOpener } from '../src/node.ts';

type SentMessage = { type: string; id: string } & Record<string, unknown>;

/** Queue whose reader waits for the next value. */
class Queue<Value> {
  readonly #values: Value[] = [];
  #wake = Promise.withResolvers<void>();

  add(value: Value): void {
    this.#values.push(value);
    this.#wake.resolve();
  }

  async next(): Promise<Value> {
    for (;;) {
      const value = this.#values.shift();
      if (value !== undefined) return value;
      await this.#wake.promise;
      this.#wake = Promise.withResolvers();
    }
  }
}

/** The scripted server's side of a connection. */
export class Peer {
  readonly #sent = new Queue<SentMessage>();
  readonly #pings = new Queue<SentMessage>();
  readonly socket: WebSocket;

  constructor(socket: WebSocket) {
    this.socket = socket;
    socket.on('message', (data) => {
      const sentMessage: SentMessage = JSON.parse((data as Buffer).toString());
      if (sentMessage.type !== 'ping' || sentMessage.id !== undefined)
        return this.#sent.add(sentMessage);
      this.send({ type: 'pong' });
      this.#pings.add(sentMessage);
    });
  }

  /** Waits for the next ping that checks the connection. */
  async pinged(): Promise<void> {
    await this.#pings.next();
  }

  /** Waits for the next message, which must have the given type. */
  async receive(type: string): Promise<SentMessage> {
    const sentMessage = await this.#sent.next();
    if (sentMessage.type !== type)
      throw new Error(`The client sent ${sentMessage.type} instead of ${type}`);
    return sentMessage;
  }

  send(...frames: object[]): void {
    for (const frame of frames) this.socket.send(JSON.stringify(frame));
  }

  /** Answers `session.open` and the next ping, and sends events between the two replies. */
  async reopen(
    expected: object,
    { turn = null, messages = [] }: { turn?: string | null; messages?: object[] },
    events: object[] = [],
  ): Promise<void> {
    const { type: _type, id, ...members } = await this.receive('session.open');
    if (JSON.stringify(members) !== JSON.stringify(expected)) {
      throw new Error(`The client opened ${JSON.stringify(members)}`);
    }
    this.send(createOpenedFrame(id, messages, turn), ...events);
    this.send({ type: 'pong', id: (await this.receive('ping')).id });
  }
}

export const session = {
  session_id: 's',
  profile_id: 'default',
  user_id: 'u-1',
  name: '',
  message_count: 0,
  pinned: false,
  created_at: '2026-03-02T09:15:00.000Z',
  last_active: '2026-03-04T17:42:10.000Z',
};

export const TURN = { session_id: 's', turn_id: 't' };

export const createOpenedFrame = (
  id: string,
  messages: object[] = [],
  turn_id: string | null = null,
) => {
  const turn = turn_id === null ? null : { turn_id };
  return { type: 'session.opened', id, session_id: 's', session, messages, turn };
};

/** Creates an event of the turn `t` in the session `s`. */
export const event = (seq: number, type: string, members: object = {}) => {
  return { type, ...TURN, seq, ...members };
};

export const message = (id: string, role: string, content: string, members: object = {}) => {
  return { id, role, content, created_at: null, ...members };
};

export const startedEvent = (extraMembers: object = {}) =>
  event(1, 'message.started', { message: message('q', 'user', 'Що є?'), ...extraMembers });
export const deltaEvent = (seq: number, text: string) => event(seq, 'message.delta', { text });
export const completedEvent = (seq: number, content: string, extraMembers: object = {}) =>
  event(seq, 'message.completed', { message: message('a', 'assistant', content, extraMembers) });

/** Starts a WebSocket server whose messages the test writes. */
export async function startScript(t: Pick<TestContext, 'after'>) {
  const peers = new Queue<Peer>();
  const rejections: number[] = [];
  const http = createServer();
  const sockets = new WebSocketServer({ noServer: true });
  http.on('upgrade', (request, socket, head) => {
    const status = rejections.shift();
    if (status !== undefined) {
      socket.end(`HTTP/1.1 ${status} Rejected\r\nContent-Length: 0\r\nConnection: close\r\n\r\n`);
      return;
    }
    sockets.handleUpgrade(request, socket, head, (webSocket) => peers.add(new Peer(webSocket)));
  });
  const port = await listen(http);
  t.after(() => {
    for (const socket of sockets.clients) socket.terminate();
    http.close();
    http.closeAllConnections();
  });
  return {
    url: `http://127.0.0.1:${port}`,
    /** Waits for the next connection. */
    peer: (): Promise<Peer> => peers.next(),
    /** Terminates a connection, and waits for the next one. */
    async reconnect(peer: Peer): Promise<Peer> {
      peer.socket.terminate();
      return peers.next();
    },
    /** HTTP statuses that reject the next handshakes. */
    rejections,
  };
}

export const cookie = { name: 'svc_auth_session', value: 'A'.repeat(43) };

/** Opens a client that reconnects immediately, and its server. */
export async function openClientAndPeer(
  t: Pick<TestContext, 'after'>,
  options: Partial<
    Pick<
      Parameters<typeof openChat>[0],
      'reconnectTimeoutMs' | 'quietMs' | 'getDelayMs' | 'onSessionUpdated'
    >
  > = {},
) {
  const script = await startScript(t);
  const statuses: ConnectionStatus[] = [];
  const endError = Promise.withResolvers<ChatError>();
  const [client, peer] = await Promise.all([
    openChat({
      url: script.url,
      openSocket: createCookieSocketOpener(cookie),
      checkFrame,
      onStatus(status) {
        statuses.push(status);
        if (status.type === 'ended') endError.resolve(status.error);
      },
      getDelayMs: (code) => (reconnectDelayMs(code, 0) === null ? null : 0),
      ...options,
    }),
    script.peer(),
  ]);
  t.after(() => client.close());
  return { script, client, peer, statuses, ended: endError.promise };
}

/** Reads an answer to its end or error. */
export async function readAnswer(
  answer: StreamedAnswer,
): Promise<{ events: AnswerEvent[]; error?: ChatError }> {
  const events: AnswerEvent[] = [];
  try {
    for await (const next of answer) events.push(next);
    return { events };
  } catch (error) {
    if (!(error instanceof ChatError)) throw error;
    return { events, error };
  }
}

/** Joins an answer's streamed text. */
export const joinText = (events: readonly AnswerEvent[]): string =>
  events.map((part) => (part.type === 'message.delta' ? part.text : '')).join('');

/** Waits for `message.send`, and returns its IDs. */
export async function receiveMessage(peer: Peer) {
  const { id, client_message_id } = await peer.receive('message.send');
  return { id, client_message_id };
}

/** Sends a message in the session `s`, which the peer answers with `message.started` and the given events. */
export async function startAnswer(
  client: Pick<ChatClient, 'send'>,
  peer: Peer,
  ...events: object[]
): Promise<StreamedAnswer> {
  const answer = client.send('s', 'Що є?');
  peer.send(startedEvent({ id: (await receiveMessage(peer)).id }), ...events);
  return answer;
}

/** Answers `session.create`. */
export async function acceptSession(peer: Peer): Promise<void> {
  const { id } = await peer.receive('session.create');
  peer.send({ type: 'session.created', id, session_id: 's', session });
}

/** Cancels the answer in the session `s`. */
export async function cancel(client: Pick<ChatClient, 'cancel'>, peer: Peer): Promise<void> {
  const cancelling = client.cancel('s');
  const { id } = await peer.receive('message.cancel');
  peer.send({ type: 'message.cancelling', id, session_id: 's' });
  await cancelling;
}
