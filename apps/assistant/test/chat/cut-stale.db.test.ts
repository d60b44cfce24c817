import assert from 'node:assert/strict';
import { test } from 'node:test';
import { createLogger } from '@oselya/kit';
import { type KyselyPlugin, sql } from 'kysely';
import { createCutter } from '../../src/chat/cut-stale.ts';
import { createHub } from '../../src/chat/hub.ts';
import { LEASE_SECONDS } from '../../src/chat/turns.sql.ts';
import { countBlocked, whileLocked } from '../faults/locks.ts';
import { openAssistant } from '../helpers/assistant.ts';
import { until } from '../helpers/until.ts';

// Its server does not listen, so it cuts nothing off by itself.
const { db, engine } = await openAssistant();
const log = createLogger({ level: 'silent', service: 'test' });

/** Puts an answer into a session of its own, whose process has not said for long that it writes it. */
async function putStale(sessionId: string): Promise<void> {
  await sql`insert into conversation_sessions (id, user_id) values (${sessionId}, 'u')`.execute(db);
  await sql`
    insert into chat_turns (session_id, user_id, question_id, lease_until)
    values (${sessionId}, 'u', 'q', now() - interval '1 minute')`.execute(db);
}

/** As its process does. */
const renew = (sessionId: string) =>
  sql`update chat_turns set lease_until = now() + interval '1 minute'
    where session_id = ${sessionId}`.execute(db);

async function statusOf(sessionId: string): Promise<string> {
  const { status } = await db
    .selectFrom('chat_turns')
    .select('status')
    .where('session_id', '=', sessionId)
    .executeTakeFirstOrThrow();
  return status;
}

test('after an outage of the database processes have time to say which answers they write', async (t) => {
  let isAway = false;
  const outage: KyselyPlugin = {
    transformQuery({ node }) {
      if (isAway) throw new Error('The database does not answer');
      return node;
    },
    transformResult: ({ result }) => Promise.resolve(result),
  };
  let now = performance.now();
  t.mock.method(performance, 'now', () => now);
  const cutter = createCutter(
    { db: db.withPlugin(outage), hub: createHub(), sender: 'test', log },
    () => undefined,
  );
  await putStale('s');
  const look = async () => {
    await cutter.cutAllStale();
    await cutter.cutStale('s');
    return statusOf('s');
  };
  isAway = true;
  await assert.rejects(cutter.cutAllStale());
  isAway = false;
  now += LEASE_SECONDS * 1000 - 1;
  assert.equal(await look(), 'running');
  now += 1;
  assert.equal(await look(), 'cut');
});

const looks = {
  'by its session': (cutter: ReturnType<typeof createCutter>) => cutter.cutStale('late'),
  'with all others': (cutter: ReturnType<typeof createCutter>) => cutter.cutAllStale(),
};

for (const [how, look] of Object.entries(looks)) {
  test(`an answer is not cut off, looked for ${how}, whose process says meanwhile that it writes it`, async (t) => {
    await putStale('late');
    t.after(() => db.deleteFrom('conversation_sessions').where('id', '=', 'late').execute());
    let isFound = false;
    // It is renewed when it has been found, and is not locked yet.
    const seen = db.withPlugin({
      transformQuery: ({ node }) => node,
      async transformResult({ result }) {
        if (!isFound) {
          isFound = true;
          await renew('late');
        }
        return result;
      },
    });
    let cuts = 0;
    const here = { db: seen, hub: createHub(), sender: 'test', log };
    const onCut = () => {
      cuts += 1;
    };
    await look(createCutter(here, onCut));
    assert.ok(isFound);
    assert.equal(await statusOf('late'), 'running');
    assert.equal(cuts, 0);
  });
}

// The embedded database has one connection: nobody waits for a lock there.
if (engine === 'postgres') {
  test('nor one that it says so of while its session is waited for', async () => {
    await putStale('locked');
    const cutter = createCutter({ db, hub: createHub(), sender: 'test', log }, () => undefined);
    const cutting: Promise<void>[] = [];
    const lock = sql`select from conversation_sessions where id = 'locked' for update`;
    await whileLocked(db, lock, async () => {
      cutting.push(cutter.cutStale('locked'));
      await until(async () => (await countBlocked(db)) === 1);
      await renew('locked');
    });
    await Promise.all(cutting);
    assert.equal(await statusOf('locked'), 'running');
  });
}
