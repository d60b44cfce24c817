import type { TestContext } from 'node:test';
import { openAssistant } from '../helpers/assistant.ts';
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
