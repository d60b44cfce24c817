import assert from 'node:assert/strict';
import type { TestContext } from 'node:test';
import { until } from '@oselya/testing';
import {
  type StreamedAnswer,
  type ReceivedMessage,
  ChatError,
  openChat,
  reconnectDelayMs,
  type ConnectionStatus,
  type AnswerEvent,
} from '@oselya/chat-client';
import { createCookieSocketOpener } from '@oselya/chat-client/node';
import type { Server } from '@oselya/kit';
import { type Kysely, sql } from 'kysely';
import type { Tables } from '../../src/tables.ts';
import { startProxy } from '../faults/helpers.ts';
import { openAssistant } from '../helpers/assistant.ts';
import { checkFrame } from '../helpers/asyncapi.ts';
import { person } from '../helpers/people.ts';
import { startScriptedCollector } from '../helpers/scripted-collector.ts';
import { startScriptedModel } from '../helpers/scripted-model.ts';
import { type Frame, SocketClient } from '../helpers/socket-client.ts';

/** The permissions that a conversation needs. */
export const CHAT_PERMISSIONS = [
  'svc.profiles.use',
  'svc.tools.use',
  'svc.memory.read_own',
] as const;

/** Opens an assistant with a scripted model and collector. */
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
  const url = await listen(app);

  return {
    ...assistant,
    collector,
    model,
    app,
    url,
    /** Signs a user in, and returns the value of the cookie. */
    async signIn(name: string, permissions: readonly string[] = CHAT_PERMISSIONS): Promise<string> {
      const user = person(name, { permissions: [...permissions] as never });
      return (await assistant.signedIn(app, user)).sid;
    },
    /** Returns role, content and status of the messages of a session. */
    stored: async (sessionId: string) => {
      const rows = await assistant.db
        .selectFrom('conversation_messages')
        .select(['role', 'content', 'status'])
        .where('session_id', '=', sessionId)
        .orderBy('position')
        .execute();
      return rows.map(({ role, content, status }) => [role, content, status]);
    },
    /** Returns the steps of a session, in order. */
    steps: (sessionId: string) =>
      assistant.db
        .selectFrom('agent_steps')
        .selectAll()
        .where('session_id', '=', sessionId)
        .orderBy('position')
        .execute(),
    /** Starts another instance as a second process and returns its URL. */
    async another(overrides: Record<string, string> = {}): Promise<string> {
      return listen(await assistant.instance(overrides));
    },
  };
}

/** Connects a raw client until the test ends. */
export async function openRawClient(
  t: Pick<TestContext, 'after'>,
  { url, sid }: { url: string; sid: string },
): Promise<RawClient> {
  const client = await SocketClient.open(url, { sid });
  t.after(() => client.socket.terminate());
  return new RawClient(client);
}

/** A raw client of the protocol. */
export class RawClient {
  readonly client: SocketClient;

  constructor(client: SocketClient) {
    this.client = client;
  }

  async newSession(): Promise<string> {
    const { session_id: id } = await this.client.ask({ type: 'session.create' });
    return String(id);
  }

  /** Sends a message, and returns the first answer. */
  say(sessionId: string, text: string, more: object = {}): Promise<Frame> {
    return this.client.ask({ type: 'message.send', session_id: sessionId, text, ...more });
  }

  of(type: string): Frame[] {
    return this.client.frames.filter((frame) => frame.type === type);
  }

  /** Waits for a number of frames of a type, and returns the last. */
  async waitFor(type: string, count = 1): Promise<Frame> {
    await until(() => this.of(type).length >= count);
    const frame = this.of(type).at(count - 1);
    if (frame === undefined) throw new Error(`There is no ${type}`);
    return frame;
  }

  /** The streamed text. */
  get streamed(): string {
    return this.of('message.delta')
      .map(({ text }) => String(text))
      .join('');
  }

  /** Waits until a text has been streamed. */
  async waitForText(text: string): Promise<void> {
    await until(() => this.streamed.includes(text));
  }
}

/** Divisor of the delays before a reconnection. */
const DELAY_DIVISOR = 50;

/** Connects the chat client until the test ends. Use `openRawClient` for raw frames. */
export async function openChatClient(
  t: Pick<TestContext, 'after'>,
  { url, sid }: { url: string; sid: string },
) {
  const statuses: ConnectionStatus[] = [];
  const arrived: ReceivedMessage[] = [];
  const client = await openChat({
    url,
    openSocket: createCookieSocketOpener({ name: 'svc_auth_session', value: sid }),
    onStatus: (status) => statuses.push(status),
    delayOf(code, attempt) {
      const delayMs = reconnectDelayMs(code, attempt);
      return delayMs === null ? null : delayMs / DELAY_DIVISOR;
    },
  });
  t.after(() => client.close());
  client.onArrived((one) => arrived.push(one));

  return {
    /** The states of the connection. */
    statuses,
    /** Messages that arrived without a request of this client. */
    arrived,
    newSession: async (name?: string): Promise<string> =>
      (await client.createSession({ name })).session_id,
    say: (sessionId: string, text: string): AnswerReader =>
      new AnswerReader(client.send(sessionId, text)),
    retry: (sessionId: string): AnswerReader => new AnswerReader(client.retry(sessionId)),
    async open(sessionId: string) {
      const { answer, ...opened } = await client.openSession(sessionId);
      return { ...opened, answer: answer === null ? undefined : new AnswerReader(answer) };
    },
    cancel: (sessionId: string) => client.cancel(sessionId),
    undo: (sessionId: string, stepId: string) => client.undo(sessionId, stepId),
  };
}

/** An answer of the chat client, whose events must be valid and in order. */
export class AnswerReader {
  readonly events: AnswerEvent[] = [];
  #isOver = false;
  #error: unknown;

  constructor(answer: StreamedAnswer) {
    void this.#read(answer);
  }

  /** The streamed text. */
  get streamed(): string {
    return this.events.map((event) => (event.type === 'message.delta' ? event.text : '')).join('');
  }

  get isOver(): boolean {
    return this.#isOver;
  }

  /** Waits until a text has been streamed. */
  async waitForText(text: string): Promise<void> {
    await this.#until(() => this.streamed.includes(text));
  }

  /** Waits for the first event of a type. */
  async waitFor<Type extends AnswerEvent['type']>(
    type: Type,
  ): Promise<Extract<AnswerEvent, { type: Type }>> {
    const isIt = (event: AnswerEvent): event is Extract<AnswerEvent, { type: Type }> =>
      event.type === type;
    await this.#until(() => this.events.some(isIt));
    const found = this.events.find(isIt);
    assert.ok(found);
    return found;
  }

  /** Waits for the error of the client. */
  async failure(): Promise<ChatError> {
    await until(() => this.#isOver);
    assert.ok(this.#error, 'The answer ended without an error');
    return this.#error as ChatError;
  }

  async #read(answer: StreamedAnswer): Promise<void> {
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

  /** Throws if the answer ends before the condition holds. */
  async #until(condition: () => boolean): Promise<void> {
    await until(() => condition() || this.#isOver);
    if (condition()) return;
    throw this.#error ?? new Error(`It ended with ${JSON.stringify(this.events.at(-1))}`);
  }
}

/** Opens a proxy that can be cut or moved to another process, until the test ends. */
export async function openProxy(t: Pick<TestContext, 'after'>, url: string) {
  const proxy = await startProxy(url);
  t.after(() => proxy.close());
  return { ...proxy, url: new URL(proxy.url).origin };
}

/** Returns a check of the error that the chat client throws for a problem. */
export const hasProblem = (code: string) => (error: unknown) => {
  assert.ok(error instanceof ChatError);
  assert.equal(error.problem?.code, code);
  return true;
};

/** Lets an instance listen on a free port and returns its URL. */
export const listen = (app: Server) => app.listen({ port: 0, host: '127.0.0.1' });

/** A row of a session, with times as PostgreSQL parses them. */
type SessionRow = {
  id: string;
  user_id?: string | null;
  profile_id?: string | null;
  name?: string | null;
  pinned?: boolean | null;
  created_at?: string | null;
  last_active?: string | null;
};

/** Adds sessions; omitted columns are null, as in an older system. */
export async function addSessions(db: Kysely<Tables>, ...rows: SessionRow[]): Promise<void> {
  for (const row of rows) {
    await sql`
      insert into conversation_sessions
        (id, user_id, profile_id, name, pinned, created_at, last_active)
      values (${row.id}, ${row.user_id ?? null}, ${row.profile_id ?? null}, ${row.name ?? null},
        ${row.pinned ?? null}, ${row.created_at ?? null}::timestamptz,
        ${row.last_active ?? null}::timestamptz)`.execute(db);
  }
}

/** Adds messages of a user to a session, in order. */
export async function addMessages(
  db: Kysely<Tables>,
  sessionId: string,
  ...contents: string[]
): Promise<void> {
  for (const content of contents) {
    await db
      .insertInto('conversation_messages')
      .values({ session_id: sessionId, role: 'user', content })
      .execute();
  }
}

/** Returns and deletes the audit entries about others' data. */
export async function drainAudit(db: Kysely<Tables>) {
  const lines = await db
    .deleteFrom('audit_log')
    .where('action', 'like', 'others_data_%')
    .returning(['id', 'action', 'actor_id', 'user_id', 'details'])
    .execute();
  return lines
    .toSorted((one, other) => one.id - other.id)
    .map(({ action, actor_id, user_id, details }) => ({ action, actor_id, user_id, details }));
}
