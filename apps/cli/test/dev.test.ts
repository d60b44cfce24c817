import assert from 'node:assert/strict';
import { hasLoadedSamples, sendSamples, type SampleOptions } from '../src/dev/samples.ts';
import { readSettings } from '../src/dev/settings.ts';
import { formatSummary, type SummaryFacts } from '../src/dev/summary.ts';
import { type ScriptedResponse, startServer, until } from '@oselya/testing';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { after, suite, test } from 'node:test';

suite('samples', () => {
  const QUEUE = '/api/v1/admin/queue';
  const EMPTY = { pending: 0, processing: 0, completed: 92, invalid: 3, failed: 0 };
  const LIMIT: ScriptedResponse = {
    status: 429,
    headers: { 'retry-after': '0' },
    body: { title: 'Too many requests', detail: 'No more than 5 a minute.' },
  };

  /**
   * Starts a collector that stores each idempotency key once, and rejects another payload with the same key.
   * @param respond Returns another response to the nth payload, if any.
   * @param queue Responses about the queue. The last response repeats.
   */
  async function startCollector(
    respond: (nth: number) => Promise<ScriptedResponse | undefined> | ScriptedResponse | undefined,
    queue: ScriptedResponse[] = [{ body: { counts: EMPTY } }],
  ) {
    const stored = new Map<string, string>();
    let [payloads, questions] = [0, 0];
    const { url } = await startServer(async ({ path, headers, body }) => {
      if (path === QUEUE) {
        questions += 1;
        return queue[Math.min(questions, queue.length) - 1] ?? 'reset';
      }
      payloads += 1;
      const response = await respond(payloads);
      if (response !== undefined) return response;
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

  function createOptions(url: string) {
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

  /** Sends the samples. Reported lines arrive later. */
  async function send(url: string, more: Partial<SampleOptions> = {}) {
    const lines: string[] = [];
    const state = await sendSamples({
      ...createOptions(url),
      onProcessed: () => undefined,
      report: (line) => lines.push(line),
      ...more,
    });
    return { state, lines };
  }

  test('a stopped load continues, even if the images have another origin', async () => {
    const stop = new AbortController();
    const { url, stored } = await startCollector((nth) => {
      if (nth === 20) stop.abort();
      return undefined;
    });
    const options = createOptions(url);
    const stopped = await send(url, { ...options, signal: stop.signal });
    assert.equal(stopped.state, 0);
    assert.equal(stored.size, 20);
    assert.equal(hasLoadedSamples(options.dataDir), false);
    const withImages = [...stored.values()].filter((text) => text.includes('127.0.0.1:8002'));
    assert.ok(withImages.length > 0);

    const imagesOrigin = 'http://127.0.0.1:9002';
    const { state } = await send(url, { ...options, imagesOrigin });
    assert.ok(hasLoadedSamples(options.dataDir));
    assert.equal(stored.size, Number(state) + withImages.length);
  });

  test('the summary appears when all samples are sent, and processed samples are reported', async () => {
    const { url, stored } = await startCollector(
      () => undefined,
      [
        { status: 503, headers: { 'retry-after': '0' }, body: { title: 'Not now' } },
        { body: { counts: { ...EMPTY, processing: 1 } } },
        { body: { counts: EMPTY } },
      ],
    );
    let processed = 0;
    const { state, lines } = await send(url, {
      onProcessed: () => {
        processed += 1;
        return undefined;
      },
    });
    assert.equal(state, stored.size);
    await until('a report', () => lines.length === 1);
    const counts = '92 completed, 3 no listing, 0 failed';
    assert.deepEqual(lines, [`The sample listings are processed. The collector has ${counts}.`]);
    assert.equal(processed, 1);
  });

  test('a rate limit is reported once and does not delay the summary', async () => {
    const { url, stored } = await startCollector(
      (nth) => (nth > 5 && nth <= 10 ? LIMIT : undefined),
      [{ body: { counts: { ...EMPTY, completed: null } } }],
    );
    const { state, lines } = await send(url);
    assert.equal(state, 'being sent');
    await until('both reports', () => lines.length === 2);
    assert.deepEqual(lines, [
      'Sending the sample listings: the collector answered 429: No more than 5 a minute. Retrying.',
      // The counts are missing while one of them is null.
      'The sample listings are processed.',
    ]);
    assert.ok(stored.size > 90);
  });

  const rejections: [name: string, answer: ScriptedResponse, said: string][] = [
    [
      'a rejected payload',
      { status: 409, body: { title: 'No', detail: 'The key is in use.' } },
      'the collector answered 409: The key is in use',
    ],
    [
      'a limit of a day',
      { status: 429, headers: { 'retry-after': '86400' }, body: { title: 'No more sources.' } },
      'the collector answered 429: No more sources: give the command again in 24 hours',
    ],
  ];
  for (const [name, answer, said] of rejections) {
    test(`${name} is reported in a line, and the next start continues`, async () => {
      const { url } = await startCollector((nth) => (nth > 10 ? answer : undefined));
      const { state, lines } = await send(url);
      assert.equal(state, 0);
      await until('a report', () => lines.length === 1);
      assert.deepEqual(lines, [
        `The sample listings could not all be sent: ${said}. The next start continues.`,
      ]);
    });
  }
});

suite('settings', () => {
  const webhookUrl = (env: Record<string, string>) => readSettings(env).webhookUrl;

  test('webhooks go to the address that the assistant listens on', () => {
    assert.equal(webhookUrl({}), 'http://127.0.0.1:8000/webhooks/idp');
    const proxied = { ASSISTANT_PORT: '9000', BASE_URL: 'https://oselya.example' };
    assert.equal(webhookUrl(proxied), 'http://127.0.0.1:9000/webhooks/idp');
  });

  for (const [host, reached] of [
    ['0.0.0.0', '127.0.0.1'],
    ['::', '[::1]'],
    ['::1', '[::1]'],
    ['localhost', 'localhost'],
    ['192.0.2.7', '192.0.2.7'],
  ] as const) {
    test(`an assistant on ${host} is reached at ${reached}`, () => {
      assert.equal(webhookUrl({ ASSISTANT_HOST: host }), `http://${reached}:8000/webhooks/idp`);
    });
  }

  test('ignored variables of another identity provider are named', () => {
    assert.deepEqual(readSettings({ IDP_CLIENT_ID: ' ', IDP_DISCOVERY: 'true' }).ignored, []);
    const env = {
      IDP_BASE_URL: 'https://id.example',
      IDP_CLIENT_SECRET: 'x',
      IDP_TIMEOUT_MS: '900',
    };
    assert.deepEqual(readSettings(env).ignored, ['IDP_BASE_URL', 'IDP_CLIENT_SECRET']);
  });
});

suite('summary', () => {
  const facts: SummaryFacts = {
    assistantUrl: 'http://127.0.0.1:8000',
    collectorUrl: 'http://127.0.0.1:8001',
    idpUrl: 'http://127.0.0.1:8002',
    dataDir: resolve('var'),
    isEmbedded: true,
    accounts: [],
    seconds: 1,
    samples: 0,
    keysRequired: true,
    ignored: [],
  };
  const text = (more: Partial<SummaryFacts>) => formatSummary({ ...facts, ...more });

  test('the advice about a key names its database', () => {
    assert.match(text({}), /with {2}npx oselya api-key create NAME/);
    const spaced = text({ dataDir: "/srv/my data's" });
    assert.ok(spaced.includes("DATA_DIR='/srv/my data'\\''s' npx oselya api-key create NAME"));
    assert.match(text({ isEmbedded: false }), /DATABASE_URL=… npx oselya api-key create NAME/);
  });

  test('the chat is offered with and without required API keys', () => {
    for (const keysRequired of [false, true]) {
      assert.match(text({ keysRequired }), /^ {4}npx oselya chat двокімнатна .*$/m);
      const assistantUrl = 'http://127.0.0.1:9000';
      assert.match(
        text({ keysRequired, assistantUrl }),
        /^ {4}npx oselya chat --url http:\/\/127\.0\.0\.1:9000 двокімнатна .*$/m,
      );
    }
  });

  test('ignored variables are named with the command to use', () => {
    assert.doesNotMatch(text({}), /Ignored/);
    const summary = text({ ignored: ['IDP_BASE_URL', 'IDP_CLIENT_ID'] });
    assert.match(summary, /Ignored, .*: IDP_BASE_URL, IDP_CLIENT_ID\n.*npx oselya assistant/);
  });
});
