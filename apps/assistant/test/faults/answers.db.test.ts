import assert from 'node:assert/strict';
import { test } from 'node:test';
import { sql } from 'kysely';
import { openStage, talk } from '../chat/stage.ts';
import { gate } from '../helpers/scripted-model.ts';
import { until } from '../helpers/until.ts';
import { cutAtServer, cutOnTheWay } from './cuts.ts';
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
    const olena = await talk(t, { url: replica.url, sid });
    const id = await olena.newSession();
    await olena.say(id, 'Кажи');
    await olena.hear('Перше. ');
    await cut.away();
    outage.open();
    await olena.hear('Друге. ');
    end.open();
    await olena.hear('Третє.');
    assert.equal(olena.of('message.completed').length, 0, 'it is not told before it is stored');
    await cut.back();
    const { message } = await olena.waitFor('message.completed');
    assert.partialDeepStrictEqual(message, { content: 'Перше. Друге. Третє.' });
    assert.equal(olena.streamed, 'Перше. Друге. Третє.');
    assert.deepEqual(await stored(id), [
      ['user', 'Кажи', null],
      ['assistant', 'Перше. Друге. Третє.', null],
    ]);
  });

  test('of an answer whose process is killed what was stored is kept, and it says that it was cut', async (t) => {
    const rest = gate();
    t.after(rest.open);
    model.scripts.push({ words: ['Почав ', rest.opened, 'і зник'] });
    const there = await talk(t, { url: replica.url, sid });
    const id = await there.newSession();
    await there.say(id, 'Пиши');
    await there.hear('Почав ');
    const turn = () =>
      db
        .selectFrom('chat_turn_events')
        .innerJoin('chat_turns', 'chat_turns.id', 'chat_turn_events.turn_id')
        .select('chat_turns.id')
        .where('chat_turns.session_id', '=', id)
        .where('last_seq', '>=', 2)
        .executeTakeFirst();
    await until(async () => (await turn()) !== undefined);
    await replica.kill();
    assert.equal((await there.client.closed).code, 1006);
    // As if the time had passed for which a silent process is believed to be there.
    await sql`update chat_turns set lease_until = now() where session_id = ${id}`.execute(db);

    const here = await talk(t, { url, sid });
    const opened = await here.client.ask({ type: 'session.open', session_id: id });
    assert.equal(opened['turn'], null);
    const messages = opened['messages'] as { content: string; status?: string }[];
    assert.partialDeepStrictEqual(messages.at(-1), { content: 'Почав ', status: 'cut' });
    await here.client.ask({ type: 'message.retry', session_id: id });
    await here.waitFor('message.completed');
    assert.deepEqual(await stored(id), [
      ['user', 'Пиши', null],
      ['assistant', 'Готово.', null],
    ]);
  });

  test('who follows at a process that lost the database meanwhile is told what it missed, by itself', async (t) => {
    const way = await cutOnTheWay(databaseUrl);
    const distant = await startProcess({ ...stage, databaseUrl: way.url });
    t.after(async () => {
      await distant.kill();
      await way.close();
    });
    const rest = gate();
    t.after(rest.open);
    model.scripts.push({ words: ['Перше. ', rest.opened, 'Друге.'] });
    const here = await talk(t, { url, sid });
    const id = await here.newSession();
    await here.say(id, 'Кажи');
    const there = await talk(t, { url: distant.url, sid });
    await there.client.ask({ type: 'session.open', session_id: id });
    await there.hear('Перше. ');
    await way.away();
    rest.open();
    // All of it is stored and told while the other process hears nothing, and nothing comes after it.
    await here.waitFor('message.completed');
    assert.equal(there.of('message.completed').length, 0);
    await way.back();
    const { message } = await there.waitFor('message.completed');
    assert.partialDeepStrictEqual(message, { content: 'Перше. Друге.' });
    assert.equal(there.streamed, 'Перше. Друге.');
  });
}
