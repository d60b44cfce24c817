import assert from 'node:assert/strict';
import { test } from 'node:test';
import { connect } from '@oselya/db';
import { sql } from 'kysely';
import type { Tables } from '../../src/tables.ts';
import { createNotifications } from '../../src/queue/notifications.ts';
import { CHANNEL } from '../../src/queue/notifications.ts';
import { openDatabase } from '../support/database.ts';
import { until } from '../support/until.ts';

const database = await openDatabase();

test('a hundred notifications are at once here, and two elsewhere', async () => {
  let notified = 0;
  let heard = 0;
  const unlisten = await database.listen(CHANNEL, () => {
    notified += 1;
  });
  const notifications = createNotifications({
    db: database.db,
    onError: (error) => assert.fail(String(error)),
    intervalMs: 50,
  });
  const forget = notifications.subscribe(() => {
    heard += 1;
  });
  for (let i = 0; i < 100; i += 1) notifications.send();
  assert.equal(heard, 100);
  forget();
  await until('the notification at once and the one after the interval', () => notified === 2);
  notifications.send();
  await until('the next one', () => notified === 3);
  await notifications.close();
  await unlisten();
  assert.equal(heard, 100);
});

test('a notification that is still due is sent at the end, and none after it', async () => {
  let notified = 0;
  const unlisten = await database.listen(CHANNEL, () => (notified += 1));
  const notifications = createNotifications({
    db: database.db,
    onError: assert.ifError,
    intervalMs: 60_000,
  });
  notifications.send();
  notifications.send();
  await notifications.close();
  await until('both', () => notified === 2);
  notifications.send();
  await sql`select pg_notify(${CHANNEL}, '')`.execute(database.db);
  await until('the one of the test', () => notified === 3);
  await unlisten();
});

test('a notification that fails is told of and does no harm', async () => {
  const closed = await connect<Tables>({});
  await closed.close();
  const errors: unknown[] = [];
  const notifications = createNotifications({
    db: closed.db,
    onError: (error) => errors.push(error),
  });
  notifications.send();
  await notifications.close();
  assert.equal(errors.length, 1);
});
