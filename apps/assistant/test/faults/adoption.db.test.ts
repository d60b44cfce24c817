import assert from 'node:assert/strict';
import { test } from 'node:test';
import { sql } from 'kysely';
import { LEASE_MS } from '../../src/conversations/turns.ts';
import { converse, type Heard, openStage } from '../chat/stage.ts';
import { gate } from '../helpers/scripted-model.ts';
import { until } from '../helpers/until.ts';
import { countBlocked, whileLocked } from './locks.ts';

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
    assert.partialDeepStrictEqual(tool, { status: 'done', changes: [{ ...fact, previous: null }] });
    rest.open();
    const { message } = await counted.waitFor('message.completed');
    assert.equal(message.content, 'Раз два.');
    const kept = await db.selectFrom('memory_facts').select(['category', 'key', 'value']).execute();
    assert.deepEqual(kept, [fact]);
  });
}
