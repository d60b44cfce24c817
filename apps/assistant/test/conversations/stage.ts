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
import {
  checkFrame as checkReceivedFrame,
  createCookieSocketOpener,
} from '@oselya/chat-client/node';
import type { Server } from '@oselya/kit';
import { type Kysely, sql } from 'kysely';
import type { Tables } from '../../src/tables.ts';
import { openAssistant } from '../helpers/assistant.ts';
import { checkFrame } from '../helpers/asyncapi.ts';
import { createPerson } from '../helpers/people.ts';
import { startScriptedCollector } from '../helpers/scripted-collector.ts';
import { startScriptedModel } from '../helpers/scripted-model.ts';
import { SocketClient } from '../helpers/socket-client.ts';

/** Permissions for conversations with tools and memory. */
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
  const app = await assistant.createInstance();
  const url = await listen(app);

  return {
    ...assistant,
    collector,
    model,
    app,
    url,
    /** Signs a user in and returns the cookie value. */
    async signIn(name: string, permissions: readonly string[] = CHAT_PERMISSIONS): Promise<string> {
      const user = createPerson(name, { permissions: [...permissions] as never });
      return (await assistant.signInUser(app, user)).sid;
    },
    /** Returns the role, content and status of a session's messages. */
    readMessages: async (sessionId: string) => {
      const rows = await assistant.db
        .selectFrom('conversation_messages')
        .select(['role', 'content', 'status'])
        .where('session_id', '=', sessionId)
        .orderBy('position')
        .execute();
      return rows.map(({ role, content, status }) => [role, content, status]);
    },
    /** Returns a session's steps in order. */
    listSteps: (sessionId: string) =>
      assistant.db
        .selectFrom('agent_steps')
        .selectAll()
        .where('session_id', '=', sessionId)
        .orderBy('position')
        .execute(),
    /** Starts another assistant on the same database, like a second process, and returns its URL. */
    async startInstance(overrides: Record<string, string> = {}): Promise<string> {
      return listen(await assistant.createInstance(overrides));
    },
  };
}

/** The URL of an assistant and the session cookie of a user. */
type Login = { url: string; sid: string };

/** Opens a socket, and terminates it when the test ends. */
export async function openRawClient(t: Pick<TestContext, 'after'>, { url, sid }: Login) {
  const client = await SocketClient.open(url, { sid });
  t.after(() => client.socket.terminate());
  return client;
}

/** Opens a raw client with a new session. */
export async function openRawSession(t: Pick<TestContext, 'after'>, login: Login) {
  const client = await openRawClient(t, login);
  return { client, id: await client.newSession() };
}

/** Divisor that shortens reconnect delays in tests. */
const DELAY_DIVISOR = 50;

/** Opens a chat client, and closes it when the test ends. Use `openRawClient` for raw frames. */
export async function openChatClient(t: Pick<TestContext, 'after'>, { url, sid }: Login) {
  const statuses: ConnectionStatus[] = [];
  const arrivedMessages: ReceivedMessage[] = [];
  const client = await openChat({
    url,
    openSocket: createCookieSocketOpener({ name: 'svc_auth_session', value: sid }),
    checkFrame: checkReceivedFrame,
    onStatus: (status) => statuses.push(status),
    getDelayMs(code, attempt) {
      const delayMs = reconnectDelayMs(code, attempt);
      return delayMs === null ? null : delayMs / DELAY_DIVISOR;
    },
  });
  t.after(() => client.close());
  client.onArrived((message) => arrivedMessages.push(message));

  return {
    statuses,
    /** Messages that this client did not request. */
    arrived: arrivedMessages,
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

/** Opens a chat client with a new session. */
export async function openChatSession(t: Pick<TestContext, 'after'>, login: Login) {
  const client = await openChatClient(t, login);
  return { client, id: await client.newSession() };
}

/** Reads an answer and asserts that its events are valid and in order. */
export class AnswerReader {
  readonly events: AnswerEvent[] = [];
  #isOver = false;
  #error: unknown;

  constructor(answer: StreamedAnswer) {
    void this.#read(answer);
  }

  /** The text of all received `message.delta` events. */
  get streamedText(): string {
    return this.events.map((event) => (event.type === 'message.delta' ? event.text : '')).join('');
  }

  get isOver(): boolean {
    return this.#isOver;
  }

  /** Waits until the streamed text includes `text`. */
  async waitForText(text: string): Promise<void> {
    await this.#until(() => this.streamedText.includes(text));
  }

  /** Waits for the first event of a type, and returns it. */
  async waitFor<Type extends AnswerEvent['type']>(
    type: Type,
  ): Promise<Extract<AnswerEvent, { type: Type }>> {
    const isOfType = (event: AnswerEvent): event is Extract<AnswerEvent, { type: Type }> =>
      event.type === type;
    await this.#until(() => this.events.some(isOfType));
    const event = this.events.find(isOfType);
    assert.ok(event);
    return event;
  }

  /** Waits until the answer fails, and returns the client's error. */
  async waitForFailure(): Promise<ChatError> {
    await until(() => this.#isOver);
    assert.ok(this.#error, 'The answer ended without an error');
    return this.#error as ChatError;
  }

  async #read(answer: StreamedAnswer): Promise<void> {
    try {
      for await (const event of answer) {
        checkFrame(event);
        const lastSeq = this.events.at(-1)?.seq ?? 0;
        const isLastEvent = event.type === 'message.completed' || event.type === 'error';
        assert.ok(isLastEvent || event.seq > lastSeq, `${event.seq} came after ${lastSeq}`);
        this.events.push(event);
      }
    } catch (error) {
      this.#error = error;
    } finally {
      this.#isOver = true;
    }
  }

  /** Waits until the condition holds. Throws if the answer ends before that. */
  async #until(condition: () => boolean): Promise<void> {
    await until(() => condition() || this.#isOver);
    if (condition()) return;
    throw this.#error ?? new Error(`It ended with ${JSON.stringify(this.events.at(-1))}`);
  }
}

/** Creates a model script that calls one tool. */
export const createToolScript = (name: string, input: object = {}) => ({
  tools: [{ name, arguments: input }],
});

/** Creates an assertion for `ChatError` with a problem code. */
export const hasProblem = (code: string) => (error: unknown) => {
  assert.ok(error instanceof ChatError);
  assert.equal(error.problem?.code, code);
  return true;
};

/** Starts listening on a free port and returns the URL. */
export const listen = (app: Server) => app.listen({ port: 0, host: '127.0.0.1' });

/** A session row. PostgreSQL parses the times. */
type SessionRow = {
  id: string;
  user_id?: string | null;
  profile_id?: string | null;
  name?: string | null;
  pinned?: boolean | null;
  created_at?: string | null;
  last_active?: string | null;
};

/** Adds sessions. Omitted columns are null, as in rows of an older system. */
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

/** Adds user messages to a session, in order. */
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

/** Deletes the audit entries about access to data of other users, and returns them. */
export async function drainAudit(db: Kysely<Tables>) {
  const entries = await db
    .deleteFrom('audit_log')
    .where('action', 'like', 'others_data_%')
    .returning(['id', 'action', 'actor_id', 'user_id', 'details'])
    .execute();
  return entries
    .toSorted((one, other) => one.id - other.id)
    .map(({ action, actor_id, user_id, details }) => ({ action, actor_id, user_id, details }));
}
