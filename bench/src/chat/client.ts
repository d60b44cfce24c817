import { once } from 'node:events';
import { WebSocket } from 'ws';
import { readTokenAges } from './stamp.ts';

/** Server URL, and the session cookie if the server has users. */
export type SocketEndpoint = { url: string; cookie: string | undefined };

/** Answer to one message. */
export type MessageResult = {
  /** Latency of each token, in milliseconds. */
  ages: number[];
  /** Time from the first token to the last. */
  seconds: number;
  /** Received text, which must equal the stored text. */
  content: string;
  failures: string[];
};

type Frame = {
  type: string;
  session_id?: string;
  seq?: number;
  text?: string;
  message?: { content: string };
};

/** Client of one session that checks each frame on arrival. */
export class ChatClient {
  readonly sessionId: string;
  /** Types of unexpected events outside an answer. */
  readonly strayEvents: string[] = [];
  readonly #socket: WebSocket;
  #isAsking = false;

  private constructor(socket: WebSocket, sessionId: string) {
    this.#socket = socket;
    this.sessionId = sessionId;
    socket.on('message', (data) => {
      if (this.#isAsking) return;
      const { type } = readFrame(data);
      // The session's title may arrive after the answer.
      if (type !== 'session.updated') this.strayEvents.push(type);
    });
  }

  /** Connects, and creates a session if the server has sessions. */
  static async open({ url, cookie }: SocketEndpoint): Promise<ChatClient> {
    const headers = cookie === undefined ? {} : { cookie };
    const address = `${url.replace('http', 'ws')}/ws`;
    const socket = new WebSocket(address, { headers, perMessageDeflate: false });
    await once(socket, 'open');
    if (cookie === undefined) return new ChatClient(socket, 'none');
    const sessionFrame = nextFrame(socket);
    socket.send(JSON.stringify({ type: 'session.create' }));
    const { type, session_id: sessionId } = await sessionFrame;
    if (sessionId === undefined) throw new Error(`Expected a session, received ${type}`);
    return new ChatClient(socket, sessionId);
  }

  /** Sends a message, awaits the answer, and checks that each event arrives once and in order. */
  ask(text: string): Promise<MessageResult> {
    const { promise, resolve, reject } = Promise.withResolvers<MessageResult>();
    const result: MessageResult = { ages: [], seconds: 0, content: '', failures: [] };
    let seq = 0;
    let startedAt: number | undefined;
    this.#isAsking = true;
    const onMessage = (data: unknown) => {
      const frame = readFrame(data);
      if (frame.type === 'session.updated') return;
      seq += 1;
      if (frame.seq !== seq)
        result.failures.push(`expected event ${seq}, received event ${frame.seq}`);
      if (frame.type === 'message.delta') {
        result.content += frame.text ?? '';
        result.ages.push(...readTokenAges(frame.text ?? ''));
        startedAt ??= performance.now();
        result.seconds = (performance.now() - startedAt) / 1000;
      } else if (frame.type === 'message.completed') {
        if (frame.message?.content !== result.content) {
          result.failures.push('the streamed text differs from the stored text');
        }
        end(() => resolve(result));
      } else if (frame.type !== 'message.started') {
        end(() => reject(new Error(`Expected an answer, received ${String(data)}`)));
      }
    };
    const onClose = (code: number) => {
      end(() => reject(new Error(`The socket closed with ${code} before the answer`)));
    };
    const end = (settle: () => void) => {
      this.#socket.off('message', onMessage).off('close', onClose);
      this.#isAsking = false;
      settle();
    };
    this.#socket.on('message', onMessage).on('close', onClose);
    this.#socket.send(JSON.stringify({ type: 'message.send', session_id: this.sessionId, text }));
    return promise;
  }

  close(): void {
    this.#socket.terminate();
  }
}

async function nextFrame(socket: WebSocket): Promise<Frame> {
  const [data] = (await once(socket, 'message')) as unknown[];
  return readFrame(data);
}

const readFrame = (data: unknown): Frame => JSON.parse(String(data)) as Frame;
