import assert from 'node:assert/strict';
import { test } from 'node:test';
import { connect } from '@oselya/db';
import { sql } from 'kysely';
import type { Tables } from '../../src/database/tables.ts';
import { CHANNEL, createHints } from '../../src/queue/hints.ts';
import { openDatabase } from '../support/database.ts';
import { until } from '../support/until.ts';

const database = await openDatabase();

test('a hundred hints are at once here, and two notifications elsewhere', async () => {
  let notified = 0;
  let heard = 0;
  const unlisten = await database.listen(CHANNEL, () => {
    notified += 1;
  });
  const hints = createHints({
    db: database.db,
    onError: (error) => assert.fail(String(error)),
    intervalMs: 50,
  });
  const forget = hints.onHint(() => {
    heard += 1;
  });
  for (let i = 0; i < 100; i += 1) hints.raise();
  assert.equal(heard, 100);
  forget();
  await until('the notification at once and the one after the interval', () => notified === 2);
  hints.raise();
  await until('the next one', () => notified === 3);
  await hints.close();
  await unlisten();
  assert.equal(heard, 100);
});

test('a notification that is still due is sent at the end, and none after it', async () => {
  let notified = 0;
  const unlisten = await database.listen(CHANNEL, () => (notified += 1));
  const hints = createHints({ db: database.db, onError: assert.ifError, intervalMs: 60_000 });
  hints.raise();
  hints.raise();
  await hints.close();
  await until('both', () => notified === 2);
  hints.raise();
  await sql`select pg_notify(${CHANNEL}, '')`.execute(database.db);
  await until('the one of the test', () => notified === 3);
  await unlisten();
});

test('a notification that fails is told of and does no harm', async () => {
  const closed = await connect<Tables>({});
  await closed.close();
  const errors: unknown[] = [];
  const hints = createHints({ db: closed.db, onError: (error) => errors.push(error) });
  hints.raise();
  await hints.close();
  assert.equal(errors.length, 1);
});
