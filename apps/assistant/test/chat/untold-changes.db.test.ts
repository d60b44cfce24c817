import assert from 'node:assert/strict';
import { test } from 'node:test';
import { sql } from 'kysely';
import { until } from '../helpers/until.ts';
import { openStage, talk } from './stage.ts';

const stage = await openStage();
const { db, model, url } = stage;

const FACT = { category: 'wishes', key: 'city', value: 'Львів' };
const CHANGES = [{ ...FACT, previous: null }];

const facts = () => db.selectFrom('memory_facts').select(['category', 'key', 'value']).execute();

/** Has the database be away for whoever notes what came of a step, and for nobody else. */
async function breakSteps(): Promise<() => Promise<void>> {
  await sql`
    create function refuse_step() returns trigger language plpgsql as $$
      begin raise exception 'away' using errcode = '57P03'; end $$`.execute(db);
  await sql`
    create trigger refuse_step before update of detail on agent_steps
    for each row execute function refuse_step()`.execute(db);
  return async () => {
    await sql`drop function if exists refuse_step cascade`.execute(db);
  };
}

/** An answer that has just remembered something, and could not say so. */
async function untold(t: Parameters<typeof talk>[0], name: string) {
  const mend = await breakSteps();
  t.after(mend);
  await db.deleteFrom('memory_facts').execute();
  const sid = await stage.signIn(name);
  const who = await talk(t, { url, sid });
  const id = await who.newSession();
  model.scripts.push({ tools: [{ name: 'remember_fact', arguments: FACT }] });
  const { turn_id: turnId } = await who.say(id, 'Шукаю у Львові');
  await until(async () => (await facts()).length === 1);
  assert.equal(who.of('tool.finished').length, 0);
  return { sid, who, id, turnId };
}

test('what a cancelled answer had remembered is shown before its end, and can be undone', async (t) => {
  const { who, id } = await untold(t, 'u-olena');
  await who.client.ask({ type: 'message.cancel', session_id: id });
  const { message, seq } = await who.waitFor('message.completed');
  assert.partialDeepStrictEqual(message, { status: 'cancelled' });
  const finished = await who.waitFor('tool.finished');
  assert.equal(finished['seq'], Number(seq) - 1);
  const { step_id: stepId, ...tool } = finished['tool'] as { step_id: string };
  assert.deepEqual(tool, {
    name: 'remember_fact',
    title: 'Remembering wishes/city: Львів',
    status: 'done',
    summary: 'Львів',
    changes: CHANGES,
  });
  assert.partialDeepStrictEqual(await stage.steps(id), [{ id: stepId, status: 'done' }]);
  const undo = { type: 'memory.undo', session_id: id, step_id: stepId };
  assert.equal(await who.client.outcome(undo), 'ok');
  assert.deepEqual(await facts(), []);
});

test('what an answer had remembered whose process has gone is shown to who connects again', async (t) => {
  const { sid, who, id, turnId } = await untold(t, 'u-taras');
  const known = who.client.frames.findLast(({ turn_id }) => turn_id === turnId)?.['seq'];
  const there = await talk(t, { url: await stage.another(), sid });
  await until(async () => {
    // As if the time had passed for which a silent process is believed to be there.
    await sql`update chat_turns set lease_until = now() where session_id = ${id}`.execute(db);
    const open = { type: 'session.open', session_id: id, turn_id: turnId, after: known };
    return (await there.client.ask(open))['turn'] === null;
  });
  const { message } = await there.waitFor('message.completed');
  assert.partialDeepStrictEqual(message, { status: 'cut' });
  const { tool } = await there.waitFor('tool.finished');
  assert.partialDeepStrictEqual(tool, { status: 'done', changes: CHANGES });
  const { step_id: stepId } = tool as { step_id: string };
  const undo = { type: 'memory.undo', session_id: id, step_id: stepId };
  assert.equal(await there.client.outcome(undo), 'ok');
  assert.deepEqual(await facts(), []);
});

test('what has been told is not told again at the end', async (t) => {
  const sid = await stage.signIn('u-iryna');
  const iryna = await talk(t, { url, sid });
  const id = await iryna.newSession();
  model.scripts.push({ tools: [{ name: 'remember_fact', arguments: FACT }] });
  await iryna.say(id, 'Шукаю у Львові');
  await iryna.waitFor('message.completed');
  assert.equal(iryna.of('tool.finished').length, 1);
});
