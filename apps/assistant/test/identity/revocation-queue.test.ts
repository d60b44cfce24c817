import assert from 'node:assert/strict';
import { test } from 'node:test';
import { createLogger } from '@oselya/kit';
import type { EndedSession } from '../../src/identity/auth-sessions.sql.ts';
import { createRevocationQueue } from '../../src/identity/revocation-queue.ts';
import { until } from '../helpers/until.ts';

const sessions = (count: number): EndedSession[] =>
  Array.from({ length: count }, (_, index) => ({
    id: String(index),
    userId: 'u',
    accessTokenEnc: '',
    refreshTokenEnc: '',
  }));

/** A queue whose calls to the provider end when the test says so. */
function heldQueue() {
  const lines: string[] = [];
  const begun: (() => void)[] = [];
  const queue = createRevocationQueue({
    revoke: () => new Promise((resolve) => void begun.push(resolve)),
    log: createLogger({
      level: 'warn',
      service: 'test',
      destination: { write: (line) => void lines.push(line) },
    }),
  });
  return { queue, begun, lines };
}

test('four are revoked at once, however many ended in however many ways', async () => {
  const { queue, begun } = heldQueue();
  queue.add(sessions(3));
  queue.add(sessions(7));
  assert.equal(begun.length, 4);
  for (let ended = 0; ended < 10; ended += 1) {
    begun[ended]?.();
    await until(() => begun.length === Math.min(10, ended + 5));
  }
  queue.add(sessions(1));
  await until(() => begun.length === 11);
  begun[10]?.();
  await queue.close();
});

test('closing waits for what is in progress and begins nothing more', async () => {
  const { queue, begun } = heldQueue();
  queue.add(sessions(9));
  let isClosed = false;
  const closing = queue.close().then(() => (isClosed = true));
  for (const end of begun.slice(0, 3)) end();
  await new Promise(setImmediate);
  assert.equal(isClosed, false);
  begun[3]?.();
  await closing;
  assert.equal(begun.length, 4);
});

test('what is too much is left out, and the log says so', async () => {
  const { queue, begun, lines } = heldQueue();
  queue.add(sessions(10_005));
  assert.match(lines.join(''), /"sessions":5,.*too many/);
  const closing = queue.close();
  for (const end of begun) end();
  await closing;
});
