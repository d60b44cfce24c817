import assert from 'node:assert/strict';
import { test } from 'node:test';
import { createLogger, createServer } from '@oselya/kit';
import type { ChatPart, ChatRequest } from '@oselya/model';
import { Registry } from 'prom-client';
import { sql } from 'kysely';
import { fixedLimits } from '../../src/conversations/agent/agent.ts';
import { chatLifecycle, createChat } from '../../src/conversations/chat.ts';
import { openEventLog } from '../../src/conversations/event-log.ts';
import { createChatMetrics } from '../../src/conversations/metrics.ts';
import { SHIPPED_PROFILES } from '../../src/profiles/profiles.ts';
import { gate } from '../helpers/scripted-model.ts';
import { until } from '../helpers/until.ts';
import { userOf } from '../helpers/people.ts';
import { openFolder } from '../profiles/folder.ts';
import { converse, type Heard, openStage } from './stage.ts';

const stage = await openStage();
const { db, engine, model, stored, url } = stage;
const sid = await stage.signIn('u-olena');
const log = createLogger({ level: 'silent', service: 'test' });

/** How the newest turn of a session stands. */
const statusOf = async (sessionId: string): Promise<string | undefined> => {
  const turn = await db
    .selectFrom('chat_turns')
    .select('status')
    .where('session_id', '=', sessionId)
    .executeTakeFirst();
  return turn?.status;
};

test('a process that starts cuts off what nobody runs, though nobody opens it, and who listens is told', async (t) => {
  const rest = gate();
  t.after(rest.open);
  const olena = await converse(t, { url, sid });
  const ids: string[] = [];
  const answers: Heard[] = [];
  for (const text of ['Перше', 'Друге']) {
    model.scripts.push({ words: [`${text} почав`, rest.opened, ' і скінчив'] });
    const id = await olena.newSession();
    ids.push(id);
    const answer = olena.say(id, text);
    answers.push(answer);
    await answer.hear(`${text} почав`);
  }
  const [fresh = '', silent = ''] = ids;
  await until(async () => {
    const { rows } = await sql`select from chat_turn_events where last_seq >= 2`.execute(db);
    return rows.length >= 2;
  });
  await stage.another();
  await until(async () => {
    // Its process says again and again that it runs it.
    await sql`update chat_turns set lease_until = now() - interval '1 second'
      where session_id = ${silent}`.execute(db);
    return (await statusOf(silent)) === 'cut';
  });
  const told = await answers[1]?.waitFor('message.completed');
  assert.partialDeepStrictEqual(told?.message, { content: 'Друге почав', status: 'cut' });
  if (engine === 'postgres') {
    // Its process has said lately that it runs it.
    assert.equal(await statusOf(fresh), 'running');
    rest.open();
    await until(async () => (await statusOf(fresh)) === 'completed');
    return;
  }
  // Nobody else can have the embedded database open: whatever runs there was left by a process that has gone.
  await until(async () => (await statusOf(fresh)) === 'cut');
  assert.deepEqual(await stored(fresh), [
    ['user', 'Перше', null],
    ['assistant', 'Перше почав', 'cut'],
  ]);
});

test('it is looked for when the server begins to listen and every five seconds, one look at a time', async (t) => {
  t.mock.timers.enable({ apis: ['setInterval'] });
  const openapi = { title: 'Nothing', description: '', version: '0' };
  const app = await createServer({ log, bodyLimit: 1024, openapi });
  const looks: (boolean | undefined)[] = [];
  const slow = gate();
  const ended: string[] = [];
  const chat = {
    async abortStaleTurns({ all }: { all?: boolean } = {}) {
      looks.push(all);
      if (looks.length === 2) await slow.opened;
      if (looks.length === 3) throw new Error('The database does not answer');
    },
    close: () => Promise.resolve(void ended.push('chat')),
  };
  chatLifecycle(app, {
    chat,
    model: { close: () => Promise.resolve(void ended.push('model')) },
    isExclusive: true,
  });
  const pass = async (ms: number) => {
    t.mock.timers.tick(ms);
    await new Promise(setImmediate);
  };
  await app.listen({ host: '127.0.0.1', port: 0 });
  await until(() => looks.length === 1);
  await pass(4999);
  assert.deepEqual(looks, [true]);
  await pass(1);
  await pass(5000);
  assert.deepEqual(looks, [true, undefined]);
  slow.open();
  await new Promise(setImmediate);
  // One that fails is no reason not to look again.
  await pass(5000);
  await pass(5000);
  assert.deepEqual(looks, [true, undefined, undefined, undefined]);
  await app.close();
  // Until the last turn has ended it is heard who was signed out, and the model answers.
  assert.deepEqual(ended, ['chat', 'model']);
});

const USER = userOf('u-olena', ['svc.tools.use']);
const HOLDER = {
  requestId: 'r',
  onBegin: () => undefined,
  hold: () => ({ current: () => Promise.resolve(USER), release: () => undefined }),
};

async function newSession(): Promise<string> {
  const { id } = await db
    .insertInto('conversation_sessions')
    .values({ user_id: USER.id, profile_id: 'default', name: 'Пошук' })
    .returning('id')
    .executeTakeFirstOrThrow();
  return id;
}

/** Conversations of a process of its own, in one of which an answer goes on when it is let go. */
async function midAnswer({ shutdownMs, on = db }: { shutdownMs: number; on?: typeof db }) {
  const rest = gate();
  const begun = gate();
  const usage = { inputTokens: null, outputTokens: null };
  async function* streamChat({ signal }: ChatRequest): AsyncGenerator<ChatPart, void, undefined> {
    yield { type: 'text', text: 'Почав' };
    begun.open();
    const { promise: stopped, reject } = Promise.withResolvers<never>();
    signal?.addEventListener('abort', () => reject(signal.reason));
    await Promise.race([rest.opened, stopped]);
    yield { type: 'text', text: ' і скінчив' };
    yield { type: 'end', reason: 'stop', model: 'test', usage };
  }
  const chat = createChat({
    db: on,
    events: await openEventLog({ db: on, listen: stage.listen, log }),
    model: { streamChat },
    services: {
      memory: { latestFacts: () => Promise.resolve([]), summaryOf: () => Promise.resolve('') },
    } as never,
    contextTokens: 8192,
    profiles: await openFolder(SHIPPED_PROFILES),
    limits: { ...fixedLimits, outputTokens: 100, ms: 600_000 },
    metrics: createChatMetrics(new Registry()),
    log,
    shutdownMs,
  });
  const id = await newSession();
  await chat.send(USER, { sessionId: id, text: 'Пиши' }, HOLDER);
  await begun.opened;
  return { chat, id, rest };
}

test('a process that ends takes no more messages, and lets an answer finish', async () => {
  const { chat, id, rest } = await midAnswer({ shutdownMs: 600_000 });
  const closed = chat.close();
  await assert.rejects(chat.send(USER, { sessionId: id, text: 'Ще' }, HOLDER), {
    code: 'unavailable',
  });
  rest.open();
  await closed;
  assert.deepEqual(await stored(id), [
    ['user', 'Пиши', null],
    ['assistant', 'Почав і скінчив', null],
  ]);
});

test('it cuts off one that takes too long, and stores what there is of it', async () => {
  const { chat, id } = await midAnswer({ shutdownMs: 10 });
  await chat.close();
  assert.deepEqual(await stored(id), [
    ['user', 'Пиши', null],
    ['assistant', 'Почав', 'cut'],
  ]);
});

test('it cuts off one that the database lets begin when all are cut off, too', async () => {
  const free = gate();
  let isHeld = false;
  let held = 0;
  const on = new Proxy(db, {
    get(target, name) {
      const value: unknown = Reflect.get(target, name, target);
      if (name !== 'transaction' || !isHeld) {
        return typeof value === 'function' ? (value.bind(target) as unknown) : value;
      }
      isHeld = false;
      const execute: ReturnType<typeof db.transaction>['execute'] = async (work) => {
        held += 1;
        await free.opened;
        return db.transaction().execute(work);
      };
      return () => ({ execute });
    },
  });
  const { chat, id } = await midAnswer({ shutdownMs: 10, on });
  const late = await newSession();
  isHeld = true;
  const sent = chat.send(USER, { sessionId: late, text: 'Ще' }, HOLDER);
  await until(() => held === 1);
  const closed = chat.close();
  await until(async () => (await stored(id)).length === 2);
  free.open();
  await sent;
  await closed;
  assert.deepEqual(await stored(late), [
    ['user', 'Ще', null],
    ['assistant', '', 'cut'],
  ]);
});
