import assert from 'node:assert/strict';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { loadSamples, samplesLoaded } from '../../src/dev/samples.ts';
import { sendSamples, type SendOptions } from '../../src/dev/send-samples.ts';
import { type Played, startServer } from '../support/loopback.ts';

const QUEUE = '/api/v1/admin/queue';
const EMPTY = { pending: 0, processing: 0, completed: 92, invalid: 3, failed: 0 };
const LIMIT: Played = {
  status: 429,
  headers: { 'retry-after': '0' },
  body: { title: 'Too many requests', detail: 'No more than 5 a minute.' },
};

/**
 * A collector that stores each idempotency key once, and refuses another payload under it.
 * @param refuse What it answers in place of that, if anything, to the payload that comes as the nth.
 * @param queue What it says of its queue one time after another, the last again and again.
 */
async function startCollector(
  refuse: (nth: number) => Promise<Played | undefined> | Played | undefined,
  queue: Played[] = [{ body: { counts: EMPTY } }],
) {
  const stored = new Map<string, string>();
  let [payloads, questions] = [0, 0];
  const { url } = await startServer(async ({ path, headers, body }) => {
    if (path === QUEUE) {
      questions += 1;
      return queue[Math.min(questions, queue.length) - 1] ?? 'reset';
    }
    payloads += 1;
    const refused = await refuse(payloads);
    if (refused !== undefined) return refused;
    const [key, payload] = [String(headers['idempotency-key']), JSON.stringify(body)];
    const before = stored.get(key);
    if (before !== undefined && before !== payload) return { status: 409, body: { title: 'No' } };
    stored.set(key, payload);
    return {
      status: 202,
      headers: before === undefined ? {} : { 'idempotent-replayed': 'true' },
      body: { raw_id: stored.size, status: 'pending' },
    };
  });
  return { url, stored };
}

function optionsFor(url: string) {
  const dataDir = mkdtempSync(join(tmpdir(), 'oselya-samples-'));
  after(() => rmSync(dataDir, { recursive: true }));
  const stopping = new AbortController();
  after(() => stopping.abort());
  return {
    dataDir,
    collector: { url, apiKey: undefined },
    imagesOrigin: 'http://127.0.0.1:8002',
    signal: stopping.signal,
  };
}

/** Sends them, and gives how they stand at first; what is told comes as it comes. */
async function send(url: string, more: Partial<SendOptions> = {}) {
  const lines: string[] = [];
  const standing = await sendSamples({
    ...optionsFor(url),
    onProcessed: () => undefined,
    tell: (line) => lines.push(line),
    ...more,
  });
  return { standing, lines };
}

async function untilTold(lines: readonly string[], count: number): Promise<void> {
  for (let tries = 0; lines.length < count; tries += 1) {
    assert.ok(tries < 3000, `not told: ${lines.join('\n')}`);
    await sleep(10);
  }
}

const onRetry = (reason: string) => assert.fail(reason);

test('a load that was stopped goes on, though the pictures are served elsewhere now', async () => {
  const stop = new AbortController();
  const { url, stored } = await startCollector((nth) => {
    if (nth === 20) stop.abort();
    return undefined;
  });
  const options = optionsFor(url);
  await assert.rejects(loadSamples({ ...options, signal: stop.signal }, onRetry), {
    name: 'AbortError',
  });
  assert.equal(stored.size, 20);
  assert.equal(samplesLoaded(options.dataDir), false);
  const withPictures = [...stored.values()].filter((text) => text.includes('127.0.0.1:8002'));
  assert.ok(withPictures.length > 0);

  const imagesOrigin = 'http://127.0.0.1:9002';
  const sent = await loadSamples({ ...options, imagesOrigin }, onRetry);
  assert.ok(samplesLoaded(options.dataDir));
  assert.equal(stored.size, sent + withPictures.length, 'only what names pictures is sent anew');
});

test('the summary waits for all samples, which are told when they are processed', async () => {
  const { url, stored } = await startCollector(
    () => undefined,
    [
      { status: 503, headers: { 'retry-after': '0' }, body: { title: 'Not now' } },
      { body: { counts: { ...EMPTY, processing: 1 } } },
      { body: { counts: EMPTY } },
    ],
  );
  let processed = 0;
  const { standing, lines } = await send(url, {
    onProcessed: () => {
      processed += 1;
      return undefined;
    },
  });
  assert.equal(standing, stored.size);
  await untilTold(lines, 1);
  const counts = '92 completed, 3 no listing, 0 failed';
  assert.deepEqual(lines, [`The sample listings are processed. The collector has ${counts}.`]);
  assert.equal(processed, 1);
});

test('limits are told once, and do not keep the summary waiting', async () => {
  const { url, stored } = await startCollector(
    (nth) => (nth > 5 && nth <= 10 ? LIMIT : undefined),
    [{ body: { counts: { ...EMPTY, completed: null } } }],
  );
  const { standing, lines } = await send(url);
  assert.equal(standing, 'being sent');
  await untilTold(lines, 2);
  assert.deepEqual(lines, [
    'Sending the sample listings: the collector answered 429: No more than 5 a minute. It is tried again.',
    // What is not counted yet is left out.
    'The sample listings are processed.',
  ]);
  assert.ok(stored.size > 90);
});

test('a collector that takes its time does not keep the summary waiting either', async () => {
  const released = Promise.withResolvers<undefined>();
  const { url } = await startCollector(() => released.promise);
  const { standing, lines } = await send(url, { patienceMs: 1 });
  assert.equal(standing, 'being sent');
  released.resolve(undefined);
  await untilTold(lines, 1);
});

const refusals: [name: string, answer: Played, said: string][] = [
  [
    'what the collector does not take',
    { status: 409, body: { title: 'No', detail: 'The key is in use.' } },
    'the collector answered 409: The key is in use',
  ],
  [
    'a limit of a day',
    { status: 429, headers: { 'retry-after': '86400' }, body: { title: 'No more sources.' } },
    'the collector answered 429: No more sources: give the command again in 24 hours',
  ],
];
for (const [name, answer, said] of refusals) {
  test(`${name} is told in a line, and the next start goes on`, async () => {
    const { url } = await startCollector((nth) => (nth > 10 ? answer : undefined));
    const { standing, lines } = await send(url);
    assert.equal(standing, 0);
    await untilTold(lines, 1);
    assert.deepEqual(lines, [
      `The sample listings could not all be sent: ${said}. The next start goes on.`,
    ]);
  });
}

test('a queue that is not shown is told', async () => {
  const { url } = await startCollector(
    () => undefined,
    [{ status: 500, body: { title: 'Internal error', detail: 'It failed.' } }],
  );
  const { lines } = await send(url);
  await untilTold(lines, 1);
  assert.deepEqual(lines, [
    'The sample listings could not be followed: the collector refused to show its queue (500): It failed.',
  ]);
});
