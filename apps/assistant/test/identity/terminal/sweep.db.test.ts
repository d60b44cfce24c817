import assert from 'node:assert/strict';
import { test } from 'node:test';
import { sql } from 'kysely';
import { sweepTerminalSignIns } from '../../../src/identity/terminal.ts';
import { runSweep } from '../../../src/upkeep.ts';
import { countBlocked } from '../../faults/locks.ts';
import { openAssistant } from '../../helpers/assistant.ts';
import { until } from '../../helpers/until.ts';

// The embedded database has one connection: nobody waits for a lock there.
if (process.env['TEST_DATABASE_URL'] !== undefined) {
  const { db, instance, signedIn } = await openAssistant();
  const app = await instance();

  test('the sweep of what no terminal came for passes by what others are ending', async () => {
    const { sid } = await signedIn(app);
    await db
      .insertInto('terminal_sign_ins')
      .values({
        id: 'late',
        auth_session_id: sid,
        browser_id: 'b',
        port: 1,
        state: 's',
        code_challenge: 'c',
        expires_at: new Date(0),
      })
      .execute();
    const sweeps: Promise<number>[] = [];
    await db.transaction().execute(async (trx) => {
      // As a statement that deletes many sessions: all of them first, and what refers to them at its end.
      await sql`select from user_auth_sessions where id = ${sid} for update`.execute(trx);
      const sweep = runSweep(db, sweepTerminalSignIns);
      sweeps.push(sweep);
      let isOver = false;
      const over = () => (isOver = true);
      void sweep.then(over, over);
      await until(async () => isOver || (await countBlocked(db)) > 0);
      await trx.deleteFrom('user_auth_sessions').where('id', '=', sid).execute();
    });
    assert.deepEqual(await Promise.all(sweeps), [0]);
  });
}
