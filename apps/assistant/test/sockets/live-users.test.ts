import assert from 'node:assert/strict';
import { after, test } from 'node:test';
import { ProblemError } from '@oselya/kit';
import { problem } from '../../src/errors.ts';
import { socketLimits } from '../../src/conversations/socket.ts';
import { createLiveUsers } from '../../src/conversations/live-users.ts';
import { account, ScriptedIdentity } from '../helpers/sockets.ts';
import { until } from '../helpers/until.ts';

/** Live users with `sessions` signed in, each as the user of that name. */
function liveUsers(sessions: string[], limits: Partial<typeof socketLimits> = {}) {
  const identity = new ScriptedIdentity();
  for (const id of sessions) identity.users.set(id, account(`u-${id}`));
  const warnings: object[] = [];
  const users = createLiveUsers({
    resolve: identity.resolve,
    living: identity.living,
    limits: { ...socketLimits, ...limits },
    log: { warn: (line: object) => void warnings.push(line) },
  });
  after(users.stop);
  const ended: string[] = [];
  const hold = (id: string) =>
    users.hold(id, { onKnown: () => undefined, onSignedOut: () => ended.push(id) });
  return { identity, users, ended, hold, warnings };
}

const isProblem = (code: string) => (error: unknown) =>
  error instanceof ProblemError && error.code === code;

const NEVER = 1_000_000;

test('a user is resolved once for all messages of the next 30 s', async (t) => {
  let now = 1_000_000;
  t.mock.method(performance, 'now', () => now);
  const { identity, hold } = liveUsers(['a'], { sweepIntervalMs: NEVER });
  const session = hold('a');
  assert.equal((await session.current()).id, 'u-a');
  now += 30_000;
  await session.current();
  assert.equal(identity.resolutions, 1);
  now += 1;
  await session.current();
  assert.equal(identity.resolutions, 2);
});

test('the age counts from before the provider was asked', async (t) => {
  let now = 1_000_000;
  t.mock.method(performance, 'now', () => now);
  const { identity, hold } = liveUsers(['a'], { sweepIntervalMs: NEVER });
  const session = hold('a');
  const { promise, resolve } = Promise.withResolvers<void>();
  identity.gate = promise;
  const first = session.current();
  now += 20_000;
  resolve();
  await first;
  now += 10_001;
  await session.current();
  assert.equal(identity.resolutions, 2);
});

test('sockets of one session share its user, and the last that goes takes it along', async () => {
  const { identity, users, ended, hold } = liveUsers(['a']);
  const [one, other] = [hold('a'), hold('a')];
  await Promise.all([one.current(), other.current()]);
  assert.deepEqual([identity.resolutions, users.size], [1, 1]);
  one.release();
  one.release();
  assert.equal(users.size, 1);
  identity.users.clear();
  users.onNotify('u-a');
  await until(() => ended.length === 1);
  other.release();
  assert.equal(users.size, 0);
});

test('a message after a change is judged by a resolution after it', async () => {
  const { identity, users, hold } = liveUsers(['a'], { sweepIntervalMs: NEVER });
  const session = hold('a');
  await session.current();
  identity.users.set('a', account('u-a', ['svc.tools.use']));
  users.onNotify('u-b');
  assert.deepEqual((await session.current()).permissions, []);
  users.onNotify('u-a');
  assert.deepEqual((await session.current()).permissions, ['svc.tools.use']);
});

test('a message after a sign-out is not acted on, also where no notification of it came', async () => {
  const { identity, ended, hold } = liveUsers(['a'], { sweepIntervalMs: NEVER });
  const session = hold('a');
  await session.current();
  identity.users.clear();
  await assert.rejects(session.current(), isProblem('not_signed_in'));
  assert.deepEqual(ended, ['a']);
});

test('what was in flight when a change came does not count as after it', async () => {
  const { identity, users, hold } = liveUsers(['a'], { sweepIntervalMs: NEVER });
  const session = hold('a');
  const { promise, resolve } = Promise.withResolvers<void>();
  identity.gate = promise;
  const earlier = session.current();
  await until(() => identity.resolutions === 1);
  // Nobody knows yet whose session it is, so a change of anybody's concerns it.
  identity.users.set('a', account('u-a', ['svc.tools.use']));
  users.onNotify('u-somebody');
  const later = session.current();
  resolve();
  assert.deepEqual((await earlier).permissions, []);
  assert.deepEqual((await later).permissions, ['svc.tools.use']);
  assert.equal(identity.resolutions, 2);
});

test('a session that ended while it was being resolved stays ended', async () => {
  const { identity, users, ended, hold } = liveUsers(['a'], { sweepIntervalMs: NEVER });
  const session = hold('a');
  const { promise, resolve } = Promise.withResolvers<void>();
  identity.gate = promise;
  const current = session.current();
  await until(() => identity.resolutions === 1);
  identity.users.clear();
  users.onNotify('u-a');
  await until(() => ended.length === 1);
  resolve();
  await assert.rejects(current, isProblem('not_signed_in'));
  assert.deepEqual([ended, users.size], [['a'], 0]);
});

test('an unknown session ends, once', async () => {
  const { users, ended, hold } = liveUsers([]);
  const session = hold('a');
  await assert.rejects(session.current(), isProblem('not_signed_in'));
  users.onNotify('');
  session.release();
  assert.deepEqual([ended, users.size], [['a'], 0]);
});

test('sessions that ended are found by one look, without asking the provider for any', async () => {
  const names = Array.from({ length: 100 }, (_, n) => String(n));
  const { identity, users, ended, hold } = liveUsers(names, { sweepIntervalMs: NEVER });
  for (const name of names) await hold(name).current();
  for (const name of names.slice(0, 60)) identity.users.delete(name);
  identity.resolutions = 0;
  users.onNotify('');
  await until(() => ended.length === 60);
  assert.equal(identity.looks, 1);
  assert.deepEqual([identity.resolutions, users.size], [0, 40]);
});

test('what is heard during a look is looked at after it', async () => {
  const { identity, users, ended, hold } = liveUsers(['a', 'b'], { sweepIntervalMs: NEVER });
  await Promise.all([hold('a').current(), hold('b').current()]);
  users.onNotify('u-a');
  identity.users.delete('b');
  for (let storm = 0; storm < 50; storm += 1) users.onNotify('u-b');
  await until(() => ended.length === 1);
  assert.deepEqual([ended, identity.looks], [['b'], 2]);
});

test('an outage ends nobody, and lets nobody act on what may have changed', async () => {
  const { identity, users, ended, hold, warnings } = liveUsers(['a'], { sweepIntervalMs: NEVER });
  const session = hold('a');
  await session.current();
  identity.failure = problem('provider_unavailable');
  assert.equal((await session.current()).id, 'u-a');
  users.onNotify('u-a');
  await assert.rejects(session.current(), isProblem('provider_unavailable'));
  await until(() => warnings.length > 0);
  identity.failure = undefined;
  assert.equal((await session.current()).id, 'u-a');
  assert.deepEqual([ended, users.size], [[], 1]);
});

test('idle users are resolved again, a few at a time, and found to have gone', async () => {
  const names = Array.from({ length: 40 }, (_, n) => String(n));
  const { identity, ended, hold } = liveUsers(names, {
    userMaxAgeMs: 100,
    sweepIntervalMs: 5,
    sweepConcurrency: 3,
    sweepShare: 0,
  });
  for (const name of names) hold(name);
  await until(() => identity.resolutions > 200);
  assert.ok(identity.most <= 3, String(identity.most));
  for (const name of names.slice(0, 10)) identity.users.delete(name);
  await until(() => ended.length === 10);
});

test('more are resolved at once where there are more, so that none gets too old', async () => {
  const names = Array.from({ length: 400 }, (_, n) => String(n));
  const { identity, hold } = liveUsers(names, { sweepIntervalMs: 5 });
  const { promise, resolve } = Promise.withResolvers<void>();
  identity.gate = promise;
  for (const name of names) hold(name);
  await until(() => identity.resolutions === 100);
  resolve();
  await until(() => identity.resolutions === 400);
  assert.equal(identity.most, 100);
});

test('a resolution that fails is tried again after 5 s, and told of in one line', async (t) => {
  let now = 1_000_000;
  t.mock.method(performance, 'now', () => now);
  const { identity, hold, warnings } = liveUsers(['a', 'b', 'c'], { sweepIntervalMs: 5 });
  identity.failure = problem('provider_unavailable');
  hold('a');
  hold('b');
  await until(() => warnings.length === 1);
  // A later one shows that there was a sweep in which the first two had no turn.
  hold('c');
  await until(() => warnings.length === 2);
  assert.equal(identity.resolutions, 3);
  now += 5000;
  await until(() => warnings.length === 3);
  assert.equal(identity.resolutions, 6);
  identity.failure = undefined;
  now += 5000;
  await until(() => identity.resolutions === 9);
});
