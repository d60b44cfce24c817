import assert from 'node:assert/strict';
import { beforeEach, test } from 'node:test';
import { createLogger } from '@oselya/kit';
import { sql } from 'kysely';
import { createRevocationQueue } from '../../src/identity/revocation-queue.ts';
import { send, startProcess } from '../faults/processes.ts';
import { openAssistant } from '../helpers/assistant.ts';
import { until } from '../helpers/until.ts';

const assistant = await openAssistant();
const { db, engine, provider, instance, signedIn } = assistant;
const app = await instance();

beforeEach(async () => {
  provider.reset();
  await db.deleteFrom('token_revocations').execute();
});

const sessions = (count: number) =>
  Array.from({ length: count }, (_, index) => ({
    id: String(index),
    userId: 'u',
    accessTokenEnc: '',
    refreshTokenEnc: '',
  }));

const waiting = () => db.selectFrom('token_revocations').selectAll().orderBy('id').execute();

/** Makes everything due that waits for its next attempt. */
const makeDue = () =>
  db
    .updateTable('token_revocations')
    .set({ due_at: sql`now()` })
    .execute();

/** A queue whose calls to the provider end, settled or not, when the test says so. */
function heldQueue() {
  const begun: ((isSettled: boolean) => void)[] = [];
  const queue = createRevocationQueue({
    db,
    revoke: () => new Promise((resolve) => void begun.push(resolve)),
    log: createLogger({ level: 'silent', service: 'test' }),
    providerTimeoutMs: 5000,
  });
  return { queue, begun };
}

test('four are revoked at once, and each is forgotten when it is revoked', async () => {
  const { queue, begun } = heldQueue();
  await queue.add(db, sessions(6));
  queue.wake();
  await until(() => begun.length === 4);
  queue.wake();
  for (const end of begun) end(true);
  await until(() => begun.length === 6);
  for (const end of begun) end(true);
  await until(async () => (await waiting()).length === 0);
  await queue.close();
});

test('closing waits for what is in progress, and leaves the rest to other processes', async () => {
  const { queue, begun } = heldQueue();
  await queue.add(db, sessions(9));
  queue.wake();
  await until(() => begun.length === 4);
  let isClosed = false;
  const closing = queue.close().then(() => (isClosed = true));
  for (const end of begun.slice(0, 3)) end(true);
  await new Promise(setImmediate);
  assert.equal(isClosed, false);
  begun[3]?.(true);
  await closing;
  assert.equal((await waiting()).length, 5);
});

test('what the provider does not answer is tried again later and later, six times in all', async () => {
  const { queue, begun } = heldQueue();
  await queue.add(db, sessions(1));
  for (let attempt = 1; attempt <= 6; attempt += 1) {
    await makeDue();
    queue.wake();
    await until(() => begun.length === attempt);
    const { rows } = await sql<{ attempts: number; minutes: number }>`
      select attempts, round(extract(epoch from due_at - now()) / 60)::int as minutes
      from token_revocations`.execute(db);
    assert.deepEqual(rows, [{ attempts: attempt, minutes: 2 ** (attempt - 1) }]);
    begun[attempt - 1]?.(false);
  }
  await until(async () => (await waiting()).length === 0);
  await queue.close();
});

test('a sign-out is answered while the provider does not answer, and its tokens are revoked later', async () => {
  const patient = await instance({ IDP_TIMEOUT_MS: '60000' });
  const browser = await signedIn(patient);
  const tokens = provider.issued.slice(-2);
  const held: (() => void)[] = [];
  provider.faults.set('revoke', (response) => void held.push(() => response.writeHead(503).end()));
  let status: number | undefined;
  void browser.post('/auth/logout').then((answer) => (status = answer.statusCode));
  await until(() => status === 200);
  await until(() => held.length === 2);
  provider.faults.clear();
  for (const release of held) release();
  const [row] = await waiting();
  assert.ok(row && !tokens.some((token) => JSON.stringify(row).includes(token)), 'encrypted');
  await until(async () => {
    await makeDue();
    // A sign-out wakes the queue of its process.
    await (await signedIn(app)).post('/auth/logout');
    return tokens.every((token) => provider.revoked.includes(token));
  });
});

test('what the provider rejects is not tried again', async () => {
  provider.faults.set('revoke', { status: 400, body: '{"error":"invalid_token"}' });
  await (await signedIn(app)).post('/auth/logout');
  await until(() => provider.count('revoke') === 2);
  await until(async () => (await waiting()).length === 0);
});

// Killing takes a process, and a process takes a database that it can reach.
if (engine === 'postgres') {
  test('tokens of a process that is killed while it revokes them are revoked by another', async () => {
    const victim = await startProcess(assistant);
    const browser = await signedIn(app);
    const tokens = provider.issued.slice(-2);
    provider.faults.set('revoke', () => undefined);
    const answer = await send(victim, browser, { path: '/auth/logout', method: 'POST' });
    assert.equal(answer.status, 200);
    await until(() => provider.count('revoke') === 2);
    await victim.kill();
    assert.equal((await waiting()).length, 1);
    provider.faults.clear();
    await makeDue();
    await startProcess(assistant);
    await until(() => tokens.every((token) => provider.revoked.includes(token)));
    await until(async () => (await waiting()).length === 0);
  });
}
