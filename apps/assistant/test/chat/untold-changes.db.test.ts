import assert from 'node:assert/strict';
import { test } from 'node:test';
import { sql } from 'kysely';
import { createTurnReaper } from '../../src/conversations/end-turn.ts';
import { openEventLog, readEvents } from '../../src/conversations/event-log.ts';
import { createTurnSteps } from '../../src/conversations/run-turn.ts';
import { insertTurn } from '../../src/conversations/turns.ts';
import { createMemory } from '../../src/memory/memory.ts';
import { userOf } from '../helpers/people.ts';
import { openStage, talk } from './stage.ts';

const stage = await openStage();
const { db, model, url } = stage;
const log = { info: () => undefined, warn: () => undefined };

const FACT = { category: 'wishes', key: 'city', value: 'Львів' };
const CHANGES = [{ ...FACT, previous: null }];

const facts = () => db.selectFrom('memory_facts').select(['category', 'key', 'value']).execute();

/** Makes the database fail for results of steps, as in an outage. */
async function breakSteps(): Promise<void> {
  await sql`
    create or replace function reject_step() returns trigger language plpgsql as $$
      begin raise exception 'away' using errcode = '57P03'; end $$`.execute(db);
  await sql`
    create trigger reject_step before update of detail on agent_steps
    for each row execute function reject_step()`.execute(db);
}

test('a change that could not be reported is reported before the end of the turn, and can be undone', async (t) => {
  await breakSteps();
  t.after(() => sql`drop function reject_step cascade`.execute(db));
  const sid = await stage.signIn('u-olena');
  const olena = await talk(t, { url, sid });
  const id = await olena.newSession();
  model.scripts.push({ tools: [{ name: 'remember_fact', arguments: FACT }] });
  await olena.say(id, 'Шукаю у Львові');
  const { seq, problem } = await olena.waitFor('error');
  assert.equal(problem?.code, 'unavailable');
  const finished = await olena.waitFor('tool.finished');
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
  assert.equal(await olena.client.outcome(undo), 'ok');
  assert.deepEqual(await facts(), []);
});

/** A turn of a process that has changed nothing yet, and the reaper of another process. */
async function remembering() {
  const user = userOf('u-taras', []);
  await sql`insert into svc_users (id, email) values ('u-taras', 'taras@example.test')
    on conflict do nothing`.execute(db);
  await sql`delete from memory_facts`.execute(db);
  const { id: sessionId } = await db
    .insertInto('conversation_sessions')
    .values({ user_id: user.id, profile_id: 'default', name: 'Пошук' })
    .returning('id')
    .executeTakeFirstOrThrow();
  const key = await db
    .transaction()
    .execute((trx) => insertTurn(trx, { userId: user.id, sessionId }, 'q'));
  const process = await openEventLog({ db, listen: stage.listen, log });
  const turn = process.start(key);
  const other = await openEventLog({ db, listen: stage.listen, log });
  const reaper = createTurnReaper({ events: other, log, onAbort: () => undefined });
  const steps = createTurnSteps({ db }, turn);
  const call = { id: '1', name: 'remember_fact', input: FACT };
  turn.append({ type: 'message.delta', text: 'Так. ' });
  await steps.startTool(call, 'Remembering');
  const note = (trx: Parameters<typeof steps.storeChange>[0], change: object) =>
    steps.storeChange(trx, call, change as never);
  return {
    turn,
    remember: () => createMemory({ db }).putFact(user, FACT, { note }),
    abort: async () => {
      await sql`update chat_turns set lease_until = now() where id = ${turn.turnId}`.execute(db);
      await reaper.abortStaleTurns({ sessionId });
      return readEvents(db, turn.turnId);
    },
    close: () => Promise.all([process.close(), other.close()]),
  };
}

test('of a process that died the reaper reports the change, with the next number', async (t) => {
  const { turn, remember, abort, close } = await remembering();
  t.after(close);
  await remember();
  const before = turn.events.length;
  const [finished, end] = (await abort()).slice(before);
  assert.partialDeepStrictEqual(finished, {
    type: 'tool.finished',
    seq: before + 1,
    tool: { status: 'done', changes: CHANGES },
  });
  assert.partialDeepStrictEqual(end, {
    type: 'message.completed',
    seq: before + 2,
    message: { content: 'Так. ', status: 'cut' },
  });
});

test('a turn that was aborted, or whose session was deleted, changes nothing any more', async (t) => {
  const aborted = await remembering();
  t.after(aborted.close);
  await aborted.abort();
  await assert.rejects(aborted.remember(), { code: 'no_turn_running' });
  const deleted = await remembering();
  t.after(deleted.close);
  const { sessionId } = deleted.turn;
  await db.deleteFrom('conversation_sessions').where('id', '=', sessionId).execute();
  await assert.rejects(deleted.remember(), { code: 'session_not_found' });
  assert.deepEqual(await facts(), []);
});

test('a change that was reported is not reported again', async (t) => {
  const sid = await stage.signIn('u-iryna');
  const iryna = await talk(t, { url, sid });
  const id = await iryna.newSession();
  model.scripts.push({ tools: [{ name: 'remember_fact', arguments: FACT }] });
  await iryna.say(id, 'Шукаю у Львові');
  await iryna.waitFor('message.completed');
  assert.equal(iryna.of('tool.finished').length, 1);
});
