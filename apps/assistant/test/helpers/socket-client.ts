import { once } from 'node:events';
import { until } from '@oselya/testing';
import { WebSocket } from 'ws';
import { checkFrame, checkAccepted } from './asyncapi.ts';

export type Frame = {
  type: string;
  id?: string;
  problem?: { code: string; status: number };
} & Record<string, unknown>;

export type Closed = { code: number; reason: string };

export type ClientOptions = {
  sid?: string;
  origin?: string;
  headers?: Record<string, string>;
  /** Whether the client answers pings. */
  autoPong?: boolean;
};

/** A WebSocket client that collects all messages, and fails on messages that the document does not describe. */
export class SocketClient {
  readonly frames: Frame[] = [];
  readonly socket: WebSocket;
  private askCount = 0;
  private closeFrame: Closed | undefined;

  private constructor(socket: WebSocket) {
    this.socket = socket;
    // The library passes a Buffer by default.
    socket.on('message', (data) => {
      const frame: Frame = JSON.parse((data as Buffer).toString());
      checkFrame(frame);
      this.frames.push(frame);
    });
    // A close follows each error.
    socket.on('error', () => undefined);
    socket.once('close', (code, reason) => {
      this.closeFrame = { code, reason: String(reason) };
    });
  }

  /** Begins to connect; the handshake may be rejected. */
  static begin(url: string, options: ClientOptions = {}): SocketClient {
    const { sid, ...socketOptions } = options;
    const headers = { ...socketOptions.headers };
    if (sid !== undefined) headers['cookie'] = `svc_auth_session=${sid}`;
    return new SocketClient(
      new WebSocket(`${url.replace('http', 'ws')}/ws`, { ...socketOptions, headers }),
    );
  }

  /** Connects and waits until the socket is open. */
  static async open(url: string, options: ClientOptions = {}): Promise<SocketClient> {
    const client = SocketClient.begin(url, options);
    await once(client.socket, 'open');
    return client;
  }

  send(frame: unknown): void {
    this.socket.send(typeof frame === 'string' ? frame : JSON.stringify(frame));
  }

  /** Sends a message with a new ID, and returns its answer. */
  async ask(frame: object): Promise<Frame> {
    this.askCount += 1;
    const id = `ask-${this.askCount}`;
    this.send({ ...frame, id });
    await until(() => this.answer(id) !== undefined || this.isClosed);
    const answer = this.answer(id);
    if (answer === undefined) throw new Error('The socket closed before the answer');
    checkAccepted(frame, answer.problem?.code);
    return answer;
  }

  /** Sends a message, and returns the code of the error or `ok`. */
  async outcome(frame: object): Promise<string> {
    const answer = await this.ask(frame);
    return answer.problem?.code ?? 'ok';
  }

  get isClosed(): boolean {
    return this.closeFrame !== undefined;
  }

  get closed(): Promise<Closed> {
    return this.waitForClose();
  }

  private async waitForClose(): Promise<Closed> {
    await until(() => this.isClosed);
    if (this.closeFrame === undefined) throw new Error('The socket has no close frame');
    return this.closeFrame;
  }

  private answer(id: string): Frame | undefined {
    return this.frames.find((frame) => frame.id === id);
  }
}

/** Begins a handshake, and returns the status and code of its rejection. */
export async function handshakeRejection(
  url: string,
  options: ClientOptions = {},
): Promise<{ status: number; code: string }> {
  const { socket } = SocketClient.begin(url, options);
  const { promise, resolve, reject } = Promise.withResolvers<{ status: number; code: string }>();
  socket.once('open', () => {
    socket.terminate();
    reject(new Error('The handshake was not rejected'));
  });
  socket.once('unexpected-response', (_request, response) => {
    let body = '';
    response.on('data', (chunk) => {
      body += String(chunk);
    });
    response.on('end', () => {
      resolve({ status: response.statusCode ?? 0, code: JSON.parse(body).code });
    });
  });
  return promise;
}
