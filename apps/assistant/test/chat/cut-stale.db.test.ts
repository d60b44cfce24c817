import assert from 'node:assert/strict';
import { test } from 'node:test';
import { createLogger } from '@oselya/kit';
import { type KyselyPlugin, sql } from 'kysely';
import { createCutter } from '../../src/chat/cut-stale.ts';
import { createHub } from '../../src/chat/hub.ts';
import { LEASE_SECONDS } from '../../src/chat/turns.sql.ts';
import { openAssistant } from '../helpers/assistant.ts';

// Its server does not listen, so it cuts nothing off by itself.
const { db } = await openAssistant();
const log = createLogger({ level: 'silent', service: 'test' });

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
  await sql`insert into conversation_sessions (id, user_id) values ('s', 'u')`.execute(db);
  await sql`
    insert into chat_turns (session_id, user_id, question_id, lease_until)
    values ('s', 'u', 'q', now() - interval '1 minute')`.execute(db);
  const look = async () => {
    await cutter.cutAllStale();
    await cutter.cutStale('s');
    const { status } = await db.selectFrom('chat_turns').select('status').executeTakeFirstOrThrow();
    return status;
  };
  isAway = true;
  await assert.rejects(cutter.cutAllStale());
  isAway = false;
  now += LEASE_SECONDS * 1000 - 1;
  assert.equal(await look(), 'running');
  now += 1;
  assert.equal(await look(), 'cut');
});
