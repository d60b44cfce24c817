import assert from 'node:assert/strict';
import { test } from 'node:test';
import { CommandError } from '../../src/command-error.ts';
import { deliver } from '../../src/ingest/deliver.ts';
import { createPause } from '../../src/ingest/pause.ts';
import { closedAddress, type Played, type Received, startServer } from '../support/loopback.ts';

const ACCEPTED: Played = { status: 202, body: { raw_id: 7, status: 'pending' } };
const PROBLEM = { title: 'It failed', detail: 'The disk is full.' };

/** Sends one payload to a server that plays a script, its last line again and again. */
async function send(script: Played[], apiKey?: string) {
  const received: Received[] = [];
  const { url } = await startServer((request) => {
    received.push(request);
    return script[Math.min(received.length, script.length) - 1] ?? 'reset';
  });
  return { ...(await sendTo(url, apiKey)), received, url };
}

async function sendTo(url: string, apiKey?: string, signal = new AbortController().signal) {
  const retries: string[] = [];
  const held: number[] = [];
  const pause = createPause();
  const result = await deliver({ external_id: '1' }, 'key-1', {
    collector: { url, apiKey },
    pause: {
      wait: (stop) => pause.wait(stop),
      hold(durationMs) {
        held.push(durationMs);
        pause.hold(Math.min(durationMs, 5));
      },
    },
    signal,
    onRetry: (reason) => retries.push(reason),
    initialDelayMs: 1,
  });
  return { result, retries, held };
}

test('a payload goes to the ingest with its key, and is accepted', async () => {
  const { result, received } = await send([ACCEPTED], 'oselya_1_x');
  assert.deepEqual(result, { outcome: 'accepted' });
  const [request] = received;
  assert.equal(request?.path, '/api/v1/ingest');
  assert.equal(request?.headers['idempotency-key'], 'key-1');
  assert.equal(request?.headers.authorization, 'Bearer oselya_1_x');
  assert.deepEqual(request?.body, { external_id: '1' });
});

const standings: [status: string, outcome: string][] = [
  ['pending', 'known'],
  ['processing', 'known'],
  ['completed', 'known'],
  ['failed', 'unprocessed'],
  ['invalid', 'unprocessed'],
];
for (const [status, outcome] of standings) {
  test(`a payload that came before and is ${status} is ${outcome}`, async () => {
    const headers = { 'idempotent-replayed': 'true' };
    const { result } = await send([{ status: 202, headers, body: { raw_id: 7, status } }]);
    assert.deepEqual(
      result,
      outcome === 'known'
        ? { outcome }
        : { outcome, reason: `was stored before (raw_id 7) and ended ${status}` },
    );
  });
}

/** A limit that asks for so long a wait. */
const limited = (asked: string): Played => ({
  status: 429,
  headers: { 'retry-after': asked },
  body: PROBLEM,
});

test('a limit is waited for as long as it says, however often', async () => {
  const { result, held, received, retries } = await send([
    ...Array.from({ length: 20 }, () => limited('57')),
    ACCEPTED,
  ]);
  assert.deepEqual(result, { outcome: 'accepted' });
  assert.deepEqual(held, Array(20).fill(57_000));
  assert.equal(received.length, 21);
  assert.equal(retries[0], 'the collector answered 429: The disk is full');
});

test('a limit that asks for no wait, or for one that is over by our clock, is waited for a second', async () => {
  const past = 'Sun, 06 Nov 1994 08:49:37 GMT';
  const { result, held } = await send([limited('0'), limited(past), limited('0.2'), ACCEPTED]);
  assert.deepEqual(result, { outcome: 'accepted' });
  assert.deepEqual(held, [1000, 1000, 1000]);
});

test('a limit of a day ends the run, and says what to do', async () => {
  const body = { title: 'Too many requests', detail: 'No more than 3 new sources a day.' };
  const headers = { 'retry-after': '86400' };
  let requests = 0;
  const { url } = await startServer(() => {
    requests += 1;
    return { status: 429, headers, body };
  });
  await assert.rejects(sendTo(url), (error) => {
    assert.ok(error instanceof CommandError);
    assert.equal(
      error.message,
      'the collector answered 429: No more than 3 new sources a day: give the command again in 24 hours',
    );
    return true;
  });
  assert.equal(requests, 1);
});

test('a limit that says no time is a failure like others', async () => {
  const { result, received } = await send([{ status: 429, body: PROBLEM }]);
  assert.equal(result.outcome, 'failed');
  assert.equal(received.length, 7);
});

const passing: [name: string, played: Played][] = [
  ['a reset connection', 'reset'],
  ['500', { status: 500, body: PROBLEM }],
  ['a page of a proxy', { status: 502, body: '"<html>"' }],
  ['503 that asks for no wait', { status: 503, headers: { 'retry-after': '0' }, body: PROBLEM }],
  ['408', { status: 408, body: PROBLEM }],
  ['425', { status: 425, body: PROBLEM }],
];
for (const [name, played] of passing) {
  test(`${name} is tried again with the same key`, async () => {
    const { result, received } = await send([played, played, ACCEPTED]);
    assert.deepEqual(result, { outcome: 'accepted' });
    assert.deepEqual(
      received.map(({ headers }) => headers['idempotency-key']),
      ['key-1', 'key-1', 'key-1'],
    );
  });
  test(`${name} is tried seven times at most`, async () => {
    const { result, received, retries } = await send([played]);
    assert.equal(result.outcome, 'failed');
    assert.equal(received.length, 7);
    assert.equal(retries.length, 6);
  });
}

test('a collector that is not there fails with the reason', async () => {
  const { result } = await sendTo(await closedAddress());
  assert.deepEqual(result, {
    outcome: 'failed',
    reason: 'the collector cannot be reached (ECONNREFUSED)',
  });
});

test('what is wrong with the payload is not tried again', async () => {
  for (const status of [400, 409, 413, 415, 422]) {
    const body = { title: 'Not valid', errors: [{ path: 'body/price', message: 'must be >= 0' }] };
    const { result, received } = await send([{ status, body }]);
    const reason = `the collector answered ${status}: body/price must be >= 0`;
    assert.deepEqual(result, { outcome: 'refused', reason });
    assert.equal(received.length, 1);
  }
});

const hopeless: [name: string, played: Played, said: RegExp][] = [
  [
    'no key',
    { status: 401, body: { title: 'API key needed' } },
    /set COLLECTOR_API_KEY to one with the scope ingest/,
  ],
  [
    'a key without the scope',
    { status: 403, body: { title: 'Not allowed', detail: 'Lacks it.' } },
    /\(403\): Lacks it\./,
  ],
  [
    'another server',
    { status: 404, body: 'nothing' },
    /\(404\) without a reason: set COLLECTOR_URL/,
  ],
  ['a page', { status: 200, body: {} }, /is no collector: set COLLECTOR_URL/],
  [
    'a redirect',
    { status: 308, headers: { location: 'http://other.example/' } },
    /is no collector/,
  ],
  ['202 of something else', { status: 202, body: { ok: true } }, /is no collector/],
];
for (const [name, played, said] of hopeless) {
  test(`${name} stands in the way of every record and ends the run`, async () => {
    await assert.rejects(send([played]), (error) => {
      assert.ok(error instanceof CommandError);
      assert.match(error.message, said);
      return true;
    });
  });
}

test('a stopped run does not wait on', async () => {
  const controller = new AbortController();
  const { url } = await startServer(() => {
    controller.abort();
    return { status: 503, headers: { 'retry-after': '3600' }, body: PROBLEM };
  });
  await assert.rejects(sendTo(url, undefined, controller.signal), { name: 'AbortError' });
});
