import assert from 'node:assert/strict';
import { test, type TestContext } from 'node:test';
import { sql } from 'kysely';
import { converse, openStage, wayTo } from '../chat/stage.ts';
import { gate } from '../helpers/scripted-model.ts';
import { until } from '../helpers/until.ts';
import { cutAtServer, cutOnTheWay } from './cuts.ts';
import { untilBlocked, whileLocked } from './locks.ts';
import { startProcess } from './processes.ts';

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
