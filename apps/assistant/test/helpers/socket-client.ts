import assert from 'node:assert/strict';
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

type ClientOptions = {
  sid?: string;
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
    // The library passes a Buffer by default, so the assertion is safe.
    socket.on('message', (data) => {
      const frame: Frame = JSON.parse((data as Buffer).toString());
      checkFrame(frame);
      this.frames.push(frame);
    });
    // A close follows each error, so the listener only prevents a crash.
    socket.on('error', () => undefined);
    socket.once('close', (code, reason) => {
      this.closeFrame = { code, reason: String(reason) };
    });
  }

  /** Begins to connect, and does not wait. The server may close the socket immediately. */
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

  /** Creates a session and returns its ID. */
  async newSession(): Promise<string> {
    const { session_id: id } = await this.ask({ type: 'session.create' });
    return String(id);
  }

  /** Sends a chat message, and returns the first reply. */
  say(sessionId: string, text: string, extraMembers: object = {}): Promise<Frame> {
    return this.ask({ type: 'message.send', session_id: sessionId, text, ...extraMembers });
  }

  /** Sends a chat message, and waits until its answer is complete. */
  async complete(sessionId: string, text: string): Promise<void> {
    const earlierCount = this.getFrames('message.completed').length;
    await this.say(sessionId, text);
    await this.waitFor('message.completed', earlierCount + 1);
  }

  getFrames(type: string): Frame[] {
    return this.frames.filter((frame) => frame.type === type);
  }

  /** Waits for `count` frames of a type and returns the last of them. */
  async waitFor(type: string, count = 1): Promise<Frame> {
    await until(() => this.getFrames(type).length >= count);
    const frame = this.getFrames(type).at(count - 1);
    if (frame === undefined) throw new Error(`There is no ${type}`);
    return frame;
  }

  /** The text of all received `message.delta` events. */
  get streamedText(): string {
    return this.getFrames('message.delta')
      .map(({ text }) => String(text))
      .join('');
  }

  /** Waits until the streamed text includes `text`. */
  async waitForText(text: string): Promise<void> {
    await until(() => this.streamedText.includes(text));
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
    return until(() => this.isClosed).then(() => this.closeFrame ?? assert.fail());
  }

  private answer(id: string): Frame | undefined {
    return this.frames.find((frame) => frame.id === id);
  }
}
