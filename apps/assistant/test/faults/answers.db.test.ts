import assert from 'node:assert/strict';
import { suite, test, type TestContext } from 'node:test';
import { atEnd } from '@oselya/testing';
import {
  type ScriptedResponse,
  chunk,
  startModelServer,
  createStreamedResponse,
} from '@oselya/model/testing';
import { sql } from 'kysely';
import { openChatClient, openStage, openProxy } from '../conversations/stage.ts';
import { gate } from '../helpers/scripted-model.ts';
import { until } from '../helpers/until.ts';
import { cutAtDatabase, startProxy, startProcess, untilBlocked, whileLocked } from './helpers.ts';

suite('answers over restarts and kills', async () => {
  if (process.env['TEST_DATABASE_URL'] !== undefined) {
    const stage = await openStage();
    const { db, databaseUrl = '', model, stored, url } = stage;
    const cut = await cutAtDatabase(databaseUrl);
    const sid = await stage.signIn('u-olena');
    const replica = await startProcess(stage);

    test('An answer survives a restart of the database', async (t) => {
      t.after(() => cut.close());
      const outage = gate();
      const end = gate();
      t.after(() => {
        outage.open();
        end.open();
      });
      model.scripts.push({ words: ['Перше. ', outage.opened, 'Друге. ', end.opened, 'Третє.'] });
      const olena = await openChatClient(t, { url: replica.url, sid });
      const id = await olena.newSession();
      const answer = olena.say(id, 'Кажи');
      await answer.waitForText('Перше. ');
      await cut.away();
      outage.open();
      await answer.waitForText('Друге. ');
      end.open();
      await answer.waitForText('Третє.');
      assert.ok(!answer.isOver, 'the end is not sent before it is stored');
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

    test('The stored part of an answer is marked as cut after its process is killed', async (t) => {
      const rest = gate();
      t.after(rest.open);
      model.scripts.push({ words: ['Почав ', rest.opened, 'і зник'] });
      const proxy = await openProxy(t, replica.url);
      const olena = await openChatClient(t, { url: proxy.url, sid });
      const id = await olena.newSession();
      const answer = olena.say(id, 'Пиши');
      await answer.waitForText('Почав ');
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
      // Leases last 20 s, and the reaper runs every 5 s.
      await until(async () => (await turn())?.status === 'cut', { limitMs: 60_000 });

      proxy.leadTo(url);
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

    /** Starts a process whose connections to the database can be cut. */
    async function startBehindProxy(t: TestContext) {
      const proxy = await startProxy(databaseUrl);
      const distant = await startProcess({ ...stage, databaseUrl: proxy.url });
      t.after(async () => {
        await distant.kill();
        await proxy.close();
      });
      return { proxy, distant };
    }

    test('A follower gets the missed events after its process reconnects to the database', async (t) => {
      const { proxy, distant } = await startBehindProxy(t);
      const rest = gate();
      t.after(rest.open);
      model.scripts.push({ words: ['Перше. ', rest.opened, 'Друге.'] });
      const here = await openChatClient(t, { url, sid });
      const id = await here.newSession();
      const answer = here.say(id, 'Кажи');
      await answer.waitForText('Перше. ');
      const there = await openChatClient(t, { url: distant.url, sid });
      const { answer: followed } = await there.open(id);
      assert.ok(followed);
      await followed.waitForText('Перше. ');
      await proxy.away();
      rest.open();
      await answer.waitFor('message.completed');
      assert.ok(!followed.isOver);
      await proxy.back();
      const { message } = await followed.waitFor('message.completed');
      assert.equal(message.content, 'Перше. Друге.');
      assert.equal(followed.streamed, message.content);
    });

    test('An answer whose commit is not acknowledged is sent once', async (t) => {
      const { proxy, distant } = await startBehindProxy(t);
      // The commit of the end of a turn waits until its client is gone.
      await sql`create function wait_at_commit() returns trigger language plpgsql as $$
      begin perform pg_advisory_xact_lock(4711); return null; end $$`.execute(db);
      await sql`create constraint trigger wait_at_commit after update on chat_turns
      deferrable initially deferred for each row when (new.status = 'completed')
      execute function wait_at_commit()`.execute(db);
      t.after(() => sql`drop function wait_at_commit cascade`.execute(db));
      const olena = await openChatClient(t, { url: distant.url, sid });
      // A named session needs no title.
      const id = await olena.newSession('Пошук');
      const rest = gate();
      t.after(rest.open);
      model.scripts.push({ words: [rest.opened, 'Готово.'] });
      const answer = olena.say(id, 'Кажи');
      await whileLocked(db, sql`select pg_advisory_xact_lock(4711)`, async () => {
        rest.open();
        await untilBlocked(db, 'advisory');
        await proxy.away();
      });
      await until(async () => (await stored(id)).length === 2);
      assert.ok(!answer.isOver);
      await proxy.back();
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
  let fault: ScriptedResponse | undefined;
  const server = await startModelServer(({ path }): ScriptedResponse => {
    if (path.endsWith('/models')) return { body: { data: [] } };
    requests += 1;
    if (fault !== undefined) return fault;
    if (isDown) return 'reset';
    return createStreamedResponse([
      chunk({ content: 'Є дві.' }),
      chunk({}, { finishReason: 'stop' }),
    ]);
  });
  const stage = await openStage({ MODEL_BASE_URL: server.url });
  const { app, stored, url } = stage;
  atEnd(() => server.close());
  const sid = await stage.signIn('u-olena');

  const health = async () => (await app.inject('/health')).json().checks.model;

  test('An error within a stream is reported to the user, counted, and shown in the health', async (t) => {
    isDown = false;
    // The probe at startup has failed.
    await until(async () => (await health()).status === 'degraded');
    const olena = await openChatClient(t, { url, sid });
    const id = await olena.newSession('Пошук');
    const end = (body: object) =>
      (fault = createStreamedResponse([chunk({ content: 'Є ' }), body]));
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

  test('An unreachable model is reported, and the answer can be retried when it is back', async (t) => {
    const olena = await openChatClient(t, { url, sid });
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

    // After five failures in a row the breaker opens.
    isDown = true;
    const failed: number[] = [];
    for (let attempt = 1; attempt <= 3; attempt += 1) {
      const before = requests;
      const { problem: again } = await olena.say(id, `Ще ${attempt}`).waitFor('error');
      assert.equal(again.code, 'model_unavailable');
      failed.push(requests - before);
    }
    assert.deepEqual(failed, [3, 2, 0]);
  });
});
