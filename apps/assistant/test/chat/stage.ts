import assert from 'node:assert/strict';
import type { TestContext } from 'node:test';
import {
  type Answer,
  type Arrived,
  ChatError,
  openChat,
  reconnectDelayMs,
  type Status,
  type TurnEvent,
} from '@oselya/chat-client';
import { withCookie } from '@oselya/chat-client/node';
import { cutOnTheWay } from '../faults/helpers.ts';
import { openAssistant } from '../helpers/assistant.ts';
import { checkFrame } from '../helpers/asyncapi.ts';
import { person } from '../helpers/people.ts';
import { startScriptedCollector } from '../helpers/scripted-collector.ts';
import { startScriptedModel } from '../helpers/scripted-model.ts';
import { type Frame, SocketClient } from '../helpers/socket-client.ts';
import { until } from '../helpers/until.ts';
import { listening } from '../sockets/people.ts';

/** What a conversation needs. */
export const SPEAKER = ['svc.profiles.use', 'svc.tools.use', 'svc.memory.read_own'] as const;

/** An assistant with a scripted model and collector, and people who talk to it. */
export async function openStage(env: Record<string, string> = {}) {
  const collector = await startScriptedCollector();
  const model = await startScriptedModel();
  const assistant = await openAssistant({
    IDP_USER_MAX_AGE_SECONDS: '3600',
    COLLECTOR_URL: collector.url,
    ...model.env,
    ...env,
  });
  const app = await assistant.instance();
  const url = await listening(app);

  return {
    ...assistant,
    collector,
    model,
    app,
    url,
    /** Somebody who may talk, signed in: the cookie's value. */
    async signIn(name: string, permissions: readonly string[] = SPEAKER): Promise<string> {
      const user = person(name, { permissions: [...permissions] as never });
      return (await assistant.signedIn(app, user)).sid;
    },
    /** The messages of a session as they are stored: who, what, and why it is not complete. */
    stored: async (sessionId: string) => {
      const rows = await assistant.db
        .selectFrom('conversation_messages')
        .select(['role', 'content', 'status'])
        .where('session_id', '=', sessionId)
        .orderBy('position')
        .execute();
      return rows.map(({ role, content, status }) => [role, content, status]);
    },
    /** The steps of a session, in their order. */
    steps: (sessionId: string) =>
      assistant.db
        .selectFrom('agent_steps')
        .selectAll()
        .where('session_id', '=', sessionId)
        .orderBy('position')
        .execute(),
    /** Another process of the same installation, as far as that can be in one. */
    async another(overrides: Record<string, string> = {}): Promise<string> {
      return listening(await assistant.instance(overrides));
    },
  };
}

/** Connects, for the time of one test. */
export async function talk(
  t: Pick<TestContext, 'after'>,
  { url, sid }: { url: string; sid: string },
): Promise<Talker> {
  const client = await SocketClient.open(url, { sid });
  t.after(() => client.socket.terminate());
  return new Talker(client);
}

/** Somebody at a socket. */
export class Talker {
  readonly client: SocketClient;

  constructor(client: SocketClient) {
    this.client = client;
  }

  async newSession(): Promise<string> {
    const { session_id: id } = await this.client.ask({ type: 'session.create' });
    return String(id);
  }

  /** Sends a message; its first answer says that it is stored, or why it is not. */
  say(sessionId: string, text: string, more: object = {}): Promise<Frame> {
    return this.client.ask({ type: 'message.send', session_id: sessionId, text, ...more });
  }

  of(type: string): Frame[] {
    return this.client.frames.filter((frame) => frame.type === type);
  }

  /** Waits for a number of frames of a type, and gives the last of them. */
  async waitFor(type: string, count = 1): Promise<Frame> {
    await until(() => this.of(type).length >= count);
    const frame = this.of(type).at(count - 1);
    if (frame === undefined) throw new Error(`There is no ${type}`);
    return frame;
  }

  /** What was streamed, joined. */
  get streamed(): string {
    return this.of('message.delta')
      .map(({ text }) => String(text))
      .join('');
  }

  /** Waits until a text has been streamed. */
  async hear(text: string): Promise<void> {
    await until(() => this.streamed.includes(text));
  }
}

/** How much sooner than at a terminal a connection that was lost is made again. */
const HASTE = 50;

/**
 * Connects as `oselya chat` does, for the time of one test: what a person lives through. `talk` is for what the client
 * keeps from them: frames, codes, and what it never sends.
 */
export async function converse(
  t: Pick<TestContext, 'after'>,
  { url, sid }: { url: string; sid: string },
) {
  const statuses: Status[] = [];
  const arrived: Arrived[] = [];
  const client = await openChat({
    url,
    openSocket: withCookie({ name: 'svc_auth_session', value: sid }),
    onStatus: (status) => statuses.push(status),
    delayOf(code, attempt) {
      const delayMs = reconnectDelayMs(code, attempt);
      return delayMs === null ? null : delayMs / HASTE;
    },
  });
  t.after(() => client.close());
  client.onArrived((one) => arrived.push(one));

  return {
    /** What became of the connection. */
    statuses,
    /** What came by itself. */
    arrived,
    newSession: async (name?: string): Promise<string> =>
      (await client.createSession({ name })).session_id,
    say: (sessionId: string, text: string): Heard => new Heard(client.send(sessionId, text)),
    retry: (sessionId: string): Heard => new Heard(client.retry(sessionId)),
    async open(sessionId: string) {
      const { answer, ...opened } = await client.openSession(sessionId);
      return { ...opened, answer: answer === null ? undefined : new Heard(answer) };
    },
    cancel: (sessionId: string) => client.cancel(sessionId),
    undo: (sessionId: string, stepId: string) => client.undo(sessionId, stepId),
  };
}

/** An answer as it comes: each event one that the document describes, in its place and once. */
export class Heard {
  readonly events: TurnEvent[] = [];
  #isOver = false;
  #error: unknown;

  constructor(answer: Answer) {
    void this.#read(answer);
  }

  /** What was streamed, joined. */
  get streamed(): string {
    return this.events.map((event) => (event.type === 'message.delta' ? event.text : '')).join('');
  }

  get isOver(): boolean {
    return this.#isOver;
  }

  /** Waits until a text has been streamed. */
  async hear(text: string): Promise<void> {
    await this.#until(() => this.streamed.includes(text));
  }

  /** Waits for the first event of a type. */
  async waitFor<Type extends TurnEvent['type']>(
    type: Type,
  ): Promise<Extract<TurnEvent, { type: Type }>> {
    const isIt = (event: TurnEvent): event is Extract<TurnEvent, { type: Type }> =>
      event.type === type;
    await this.#until(() => this.events.some(isIt));
    const found = this.events.find(isIt);
    assert.ok(found);
    return found;
  }

  /** Waits for the error that the client ends it with. */
  async failure(): Promise<ChatError> {
    await until(() => this.#isOver);
    assert.ok(this.#error, 'It came to its end');
    return this.#error as ChatError;
  }

  async #read(answer: Answer): Promise<void> {
    try {
      for await (const event of answer) {
        checkFrame(event);
        const before = this.events.at(-1)?.seq ?? 0;
        const isEnd = event.type === 'message.completed' || event.type === 'error';
        assert.ok(isEnd || event.seq > before, `${event.seq} came after ${before}`);
        this.events.push(event);
      }
    } catch (error) {
      this.#error = error;
    } finally {
      this.#isOver = true;
    }
  }

  /** Fails as the answer does, where it is over before. */
  async #until(condition: () => boolean): Promise<void> {
    await until(() => condition() || this.#isOver);
    if (condition()) return;
    throw this.#error ?? new Error(`It ended with ${JSON.stringify(this.events.at(-1))}`);
  }
}

/** A way to an assistant that can be cut, and lead to another of its processes, for the time of one test. */
export async function wayTo(t: Pick<TestContext, 'after'>, url: string) {
  const way = await cutOnTheWay(url);
  t.after(() => way.close());
  return { ...way, url: new URL(way.url).origin };
}

/** What the client throws where the assistant refuses something. */
export const refusal = (code: string) => (error: unknown) => {
  assert.ok(error instanceof ChatError);
  assert.equal(error.problem?.code, code);
  return true;
};
