import assert from 'node:assert/strict';
import { test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { openTestDatabase } from '../src/testing/index.ts';

const database = await openTestDatabase();
const { pool } = database;

test('two channels and two listeners of one channel are kept apart', async () => {
  const heard: string[] = [];
  const stops = [
    await database.listen('a', (payload) => heard.push(`first a ${payload}`)),
    await database.listen('a', (payload) => heard.push(`second a ${payload}`)),
    await database.listen('b', (payload) => heard.push(`b ${payload}`)),
  ];
  await pool.query(`select pg_notify('a', '1')`);
  await until(() => heard.length === 2);
  await stops[0]?.();
  await pool.query(`select pg_notify('b', '2'), pg_notify('a', '3')`);
  await until(() => heard.length === 4);
  assert.deepEqual(heard.toSorted(), ['b 2', 'first a 1', 'second a 1', 'second a 3']);
  await Promise.all(stops.slice(1).map((stop) => stop()));
});

// The embedded database has no connection that could break.
if (database.engine === 'postgres') {
  test('a broken connection is renewed, with a call to look again and new notifications', async () => {
    const heard: string[] = [];
    const stop = await database.listen('c', (payload) => heard.push(payload));
    await pool.query(
      `select pg_terminate_backend(pid) from pg_stat_activity
       where datname = current_database() and query like 'listen%'`,
    );
    await until(() => heard.includes(''));
    await pool.query(`select pg_notify('c', 'after')`);
    await until(() => heard.includes('after'));
    await stop();
  });
}

async function until(holds: () => boolean): Promise<void> {
  for (let tries = 0; !holds(); tries += 1) {
    if (tries === 500) throw new Error('Waited 10 s in vain');
    await sleep(20);
  }
}
