import assert from 'node:assert/strict';
import { suite, test, type TestContext } from 'node:test';
import { atEnd } from '@oselya/db/testing';
import { type Answer, chunk, startModelServer, streamed } from '@oselya/model/testing';
import { sql } from 'kysely';
import { LEASE_MS } from '../../src/conversations/turns.ts';
import { converse, openStage, wayTo, type Heard } from '../chat/stage.ts';
import { gate } from '../helpers/scripted-model.ts';
import { until } from '../helpers/until.ts';
import { cutAtServer, cutOnTheWay, untilBlocked, whileLocked, countBlocked } from './helpers.ts';
import { startProcess } from './processes.ts';

suite('answers over restarts and kills', async () => {
  // A process can be killed, and its connections cut, where the database is a server.
  if (process.env['TEST_DATABASE_URL'] !== undefined) {
    const stage = await openStage();
    const { db, databaseUrl = '', model, stored, url } = stage;
    const cut = await cutAtServer(databaseUrl);
    const sid = await stage.signIn('u-olena');
    const replica = await startProcess(stage);

    test('a database that restarts in the middle of an answer costs nothing of it', async (t) => {
      t.after(() => cut.close());
      const outage = gate();
      const end = gate();
      t.after(() => {
        outage.open();
        end.open();
      });
      model.scripts.push({ words: ['Перше. ', outage.opened, 'Друге. ', end.opened, 'Третє.'] });
      const olena = await converse(t, { url: replica.url, sid });
      const id = await olena.newSession();
      const answer = olena.say(id, 'Кажи');
      await answer.hear('Перше. ');
      await cut.away();
      outage.open();
      await answer.hear('Друге. ');
      end.open();
      await answer.hear('Третє.');
      assert.ok(!answer.isOver, 'it is not told before it is stored');
      await cut.back();
      const { message } = await answer.waitFor('message.completed');
      assert.equal(message.content, 'Перше. Друге. Третє.');
      assert.equal(answer.streamed, message.content);
      assert.deepEqual(
        olena.statuses.map(({ type }) => type),
        ['connected'],
      );
      assert.deepEqual(await stored(id), [
        ['user', 'Кажи', null],
        ['assistant', 'Перше. Друге. Третє.', null],
      ]);
    });

    test('of an answer whose process is killed what was stored is kept, and it says that it was cut', async (t) => {
      const rest = gate();
      t.after(rest.open);
      model.scripts.push({ words: ['Почав ', rest.opened, 'і зник'] });
      const way = await wayTo(t, replica.url);
      const olena = await converse(t, { url: way.url, sid });
      const id = await olena.newSession();
      const answer = olena.say(id, 'Пиши');
      await answer.hear('Почав ');
      const turn = () =>
        db
          .selectFrom('chat_turn_events')
          .innerJoin('chat_turns', 'chat_turns.id', 'chat_turn_events.turn_id')
          .select(['chat_turns.id', 'chat_turns.status'])
          .where('chat_turns.session_id', '=', id)
          .where('last_seq', '>=', 2)
          .executeTakeFirst();
      await until(async () => (await turn()) !== undefined);
      await replica.kill();
      await until(() => olena.statuses.some(({ type }) => type === 'waiting'));
      assert.partialDeepStrictEqual(olena.statuses[1], { code: 1006 });
      // It is believed to be there for 20 s, and looked for every five.
      await until(async () => (await turn())?.status === 'cut', { limitMs: 60_000 });

      // The connection that is made again reaches another process.
      way.leadTo(url);
      const { message } = await answer.waitFor('message.completed');
      assert.partialDeepStrictEqual(message, { content: 'Почав ', status: 'cut' });
      assert.equal(answer.streamed, 'Почав ');
      const { messages, answer: running } = await olena.open(id);
      assert.equal(running, undefined);
      assert.partialDeepStrictEqual(messages.at(-1), { content: 'Почав ', status: 'cut' });
      await olena.retry(id).waitFor('message.completed');
      assert.deepEqual(await stored(id), [
        ['user', 'Пиши', null],
        ['assistant', 'Готово.', null],
      ]);
    });

    /** A process of its own, whose way to the database can be cut. */
    async function startBehindProxy(t: TestContext) {
      const way = await cutOnTheWay(databaseUrl);
      const distant = await startProcess({ ...stage, databaseUrl: way.url });
      t.after(async () => {
        await distant.kill();
        await way.close();
      });
      return { way, distant };
    }

    test('who follows at a process that lost the database meanwhile is told what it missed, by itself', async (t) => {
      const { way, distant } = await startBehindProxy(t);
      const rest = gate();
      t.after(rest.open);
      model.scripts.push({ words: ['Перше. ', rest.opened, 'Друге.'] });
      const here = await converse(t, { url, sid });
      const id = await here.newSession();
      const answer = here.say(id, 'Кажи');
      await answer.hear('Перше. ');
      const there = await converse(t, { url: distant.url, sid });
      const { answer: followed } = await there.open(id);
      assert.ok(followed);
      await followed.hear('Перше. ');
      await way.away();
      rest.open();
      // All of it is stored and told while the other process hears nothing, and nothing comes after it.
      await answer.waitFor('message.completed');
      assert.ok(!followed.isOver);
      await way.back();
      const { message } = await followed.waitFor('message.completed');
      assert.equal(message.content, 'Перше. Друге.');
      assert.equal(followed.streamed, message.content);
    });

    test('an answer whose end was stored while the word of that was lost is told, and there is one', async (t) => {
      const { way, distant } = await startBehindProxy(t);
      // At the commit of the end of a turn the server waits, and goes on when its client is gone.
      await sql`create function wait_at_commit() returns trigger language plpgsql as $$
      begin perform pg_advisory_xact_lock(4711); return null; end $$`.execute(db);
      await sql`create constraint trigger wait_at_commit after update on chat_turns
      deferrable initially deferred for each row when (new.status = 'completed')
      execute function wait_at_commit()`.execute(db);
      t.after(() => sql`drop function wait_at_commit cascade`.execute(db));
      const olena = await converse(t, { url: distant.url, sid });
      // With a name, so that none is thought of beside the answer.
      const id = await olena.newSession('Пошук');
      const rest = gate();
      t.after(rest.open);
      model.scripts.push({ words: [rest.opened, 'Готово.'] });
      const answer = olena.say(id, 'Кажи');
      await whileLocked(db, sql`select pg_advisory_xact_lock(4711)`, async () => {
        rest.open();
        // Before its commit what happened in the turn may be being stored, which waits for a row of it.
        await untilBlocked(db, 'advisory');
        await way.away();
      });
      await until(async () => (await stored(id)).length === 2);
      assert.ok(!answer.isOver);
      await way.back();
      const { message } = await answer.waitFor('message.completed');
      assert.equal(message.content, 'Готово.');
      assert.deepEqual(await stored(id), [
        ['user', 'Кажи', null],
        ['assistant', 'Готово.', null],
      ]);
      assert.equal((await olena.retry(id).failure()).problem?.code, 'nothing_to_retry');
    });
  }
});

suite('outage of the model', async () => {
  let isDown = true;
  let requests = 0;
  let fault: Answer | undefined;
  const server = await startModelServer(({ path }): Answer => {
    if (path.endsWith('/models')) return { body: { data: [] } };
    requests += 1;
    if (fault !== undefined) return fault;
    if (isDown) return 'reset';
    return streamed([chunk({ content: 'Є дві.' }), chunk({}, { finishReason: 'stop' })]);
  });
  const stage = await openStage({ MODEL_BASE_URL: server.url });
  const { app, stored, url } = stage;
  atEnd(() => server.close());
  const sid = await stage.signIn('u-olena');

  const health = async () => (await app.inject('/health')).json().checks.model;

  test('an error in the middle of a stream is one of the model: said so, counted, and in the health', async (t) => {
    isDown = false;
    // By then the probe of the start has failed, and says nothing later.
    await until(async () => (await health()).status === 'degraded');
    const olena = await converse(t, { url, sid });
    const id = await olena.newSession('Пошук');
    const end = (body: object) => (fault = streamed([chunk({ content: 'Є ' }), body]));
    end({ error: { code: 500, message: 'Compute error.', type: 'server_error' } });
    const { problem } = await olena.say(id, 'Що є?').waitFor('error');
    assert.equal(problem.code, 'model_unavailable');
    const { status, detail } = await health();
    assert.equal(status, 'degraded');
    assert.match(detail, /^The last chat request failed: .* with an error: Compute error\.$/);

    end({
      error: {
        message: 'too long',
        type: 'invalid_request_error',
        code: 'context_length_exceeded',
      },
    });
    const { problem: rejected } = await olena.retry(id).waitFor('error');
    assert.equal(rejected.code, 'model_failed');

    fault = undefined;
    await olena.retry(id).waitFor('message.completed');
    assert.deepEqual(await health(), { status: 'ok' });
    const { body } = await app.inject('/metrics');
    const counted = body.matchAll(/requests_total{operation="chat",outcome="(\w+)"} (\d+)/g);
    assert.deepEqual(
      new Map([...counted].map(([, outcome, count]) => [outcome, count])),
      new Map([
        ['MODEL_UNAVAILABLE', '1'],
        ['MODEL_INPUT_TOO_LARGE', '1'],
        ['ok', '1'],
      ]),
    );
    isDown = true;
  });

  test('of a model that cannot be reached it is said so, and when it is back the answer is tried again', async (t) => {
    const olena = await converse(t, { url, sid });
    // It has a name: nobody asks the model for one meanwhile.
    const id = await olena.newSession('Пошук');
    const { problem, message } = await olena.say(id, 'Що є?').waitFor('error');
    assert.partialDeepStrictEqual(problem, { code: 'model_unavailable', status: 503 });
    assert.partialDeepStrictEqual(message, { content: '', status: 'failed' });
    assert.deepEqual(await stored(id), [
      ['user', 'Що є?', null],
      ['assistant', '', 'failed'],
    ]);

    isDown = false;
    await olena.retry(id).waitFor('message.completed');
    assert.deepEqual(await stored(id), [
      ['user', 'Що є?', null],
      ['assistant', 'Є дві.', null],
    ]);

    // After five failures in a row it is not asked any more, and said alike.
    isDown = true;
    const failed: number[] = [];
    for (let attempt = 1; attempt <= 3; attempt += 1) {
      const before = requests;
      const { problem: again } = await olena.say(id, `Ще ${attempt}`).waitFor('error');
      assert.equal(again.code, 'model_unavailable');
      failed.push(requests - before);
    }
    assert.deepEqual(failed, [3, 2, 0]);
    const messages = await stored(id);
    assert.deepEqual(messages.slice(-2), [
      ['user', 'Ще 3', null],
      ['assistant', '', 'failed'],
    ]);
  });
});

suite('adoption of legacy data', async () => {
  // The embedded database has one connection: nobody waits for a lock there.
  if (process.env['TEST_DATABASE_URL'] !== undefined) {
    const stage = await openStage();
    const { app, db, model, url } = stage;

    /** As an adoption of legacy data does, for as long as that takes. */
    const lock = sql`lock table memory_facts, memory_summaries in share row exclusive mode`;
    const fact = { category: 'wishes', key: 'city', value: 'Львів' };
    const remember = { tools: [{ name: 'remember_fact', arguments: fact }] };

    /** Waits until the process has renewed the leases of all of its turns. */
    async function untilRenewed(): Promise<void> {
      const { rows: started } = await sql<{ at: string }>`select now()::text as at`.execute(db);
      await until(async () => {
        const { rows } = await sql`
        select from chat_turns where status = 'running' and lease_until
          <= ${started[0]?.at}::timestamptz + ${LEASE_MS}::int * interval '1 millisecond'`.execute(
          db,
        );
        return rows.length === 0;
      });
    }

    test('while a fact and a deletion wait for an adoption, all answers go on', async (t) => {
      const rest = gate();
      t.after(rest.open);
      const sids = {
        olena: await stage.signIn('u-olena'),
        taras: await stage.signIn('u-taras'),
      };
      const taras = await converse(t, { url, sid: sids.taras });
      model.scripts.push({ words: ['Пишу ', rest.opened, 'далі.'] });
      await taras.say(await taras.newSession(), 'Пиши').hear('Пишу ');
      const olena = await converse(t, { url, sid: sids.olena });
      const id = await olena.newSession();
      model.scripts.push({ words: ['Раз ', rest.opened, 'два.'] });
      const counted = olena.say(id, 'Рахуй');
      await counted.hear('Раз ');

      const deleting: Promise<{ statusCode: number }>[] = [];
      const remembering: Heard[] = [];
      const second = await olena.newSession();
      await whileLocked(db, lock, async () => {
        model.scripts.push(remember);
        remembering.push(olena.say(second, 'Шукаю у Львові'));
        await until(async () => (await countBlocked(db)) === 1);
        await untilRenewed();
        const cookies = { svc_auth_session: sids.taras };
        deleting.push(app.inject({ method: 'DELETE', url: '/me/data', cookies }));
        await until(async () => (await countBlocked(db)) === 2);
        await untilRenewed();
      });
      const [deleted] = await Promise.all(deleting);
      assert.equal(deleted?.statusCode, 200);
      const { tool } = (await remembering[0]?.waitFor('tool.finished')) ?? {};
      assert.partialDeepStrictEqual(tool, {
        status: 'done',
        changes: [{ ...fact, previous: null }],
      });
      rest.open();
      const { message } = await counted.waitFor('message.completed');
      assert.equal(message.content, 'Раз два.');
      const kept = await db
        .selectFrom('memory_facts')
        .select(['category', 'key', 'value'])
        .execute();
      assert.deepEqual(kept, [fact]);
    });
  }
});
