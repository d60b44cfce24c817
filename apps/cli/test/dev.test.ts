import assert from 'node:assert/strict';
import { hasLoadedSamples, sendSamples, type SampleOptions } from '../src/dev/samples.ts';
import { readSettings } from '../src/dev/settings.ts';
import { formatSummary, type SummaryData } from '../src/dev/summary.ts';
import { openFolder, type ScriptedResponse, startServer, until } from '@oselya/testing';
import { resolve } from 'node:path';
import { after, suite, test } from 'node:test';

suite('samples', () => {
  const QUEUE = '/api/v1/admin/queue';
  const EMPTY_QUEUE_COUNTS = { pending: 0, processing: 0, completed: 92, invalid: 3, failed: 0 };
  const LIMIT: ScriptedResponse = {
    status: 429,
    headers: { 'retry-after': '0' },
    body: { title: 'Too many requests', detail: 'No more than 5 a minute.' },
  };

  /**
   * Starts a collector that stores each idempotency key once, and rejects a different payload with the same key.
   * @param respond Returns a special response to the nth payload, if any.
   * @param queue Responses about the queue. The last response repeats.
   */
  async function startCollector(
    respond: (index: number) => ScriptedResponse | undefined,
    queue: ScriptedResponse[] = [{ body: { counts: EMPTY_QUEUE_COUNTS } }],
  ) {
    const storedRecords = new Map<string, string>();
    let [payloadCount, questionCount] = [0, 0];
    const { url } = await startServer(({ path, headers, body }) => {
      if (path === QUEUE) {
        questionCount += 1;
        return queue[Math.min(questionCount, queue.length) - 1] ?? 'reset';
      }
      payloadCount += 1;
      const response = respond(payloadCount);
      if (response !== undefined) return response;
      const [key, payload] = [String(headers['idempotency-key']), JSON.stringify(body)];
      const previousRecord = storedRecords.get(key);
      if (previousRecord !== undefined && previousRecord !== payload)
        return { status: 409, body: { title: 'No' } };
      storedRecords.set(key, payload);
      return {
        status: 202,
        headers: previousRecord === undefined ? {} : { 'idempotent-replayed': 'true' },
        body: { raw_id: storedRecords.size, status: 'pending' },
      };
    });
    return { url, storedRecords };
  }

  async function createOptions(url: string) {
    const stopController = new AbortController();
    after(() => stopController.abort());
    return {
      dataDir: await openFolder(),
      collector: { url, apiKey: undefined },
      imagesOrigin: 'http://127.0.0.1:8002',
      signal: stopController.signal,
    };
  }

  /** Sends the samples. Further lines may be reported later. */
  async function send(url: string, overrides: Partial<SampleOptions> = {}) {
    const lines: string[] = [];
    const state = await sendSamples({
      ...(await createOptions(url)),
      onProcessed: () => undefined,
      report: (line) => lines.push(line),
      ...overrides,
    });
    return { state, lines };
  }

  test('a stopped load continues, even if the images have another origin', async () => {
    const stopController = new AbortController();
    const { url, storedRecords } = await startCollector((index) => {
      if (index === 20) stopController.abort();
      return undefined;
    });
    const options = await createOptions(url);
    const stoppedRun = await send(url, { ...options, signal: stopController.signal });
    assert.equal(stoppedRun.state, 0);
    assert.equal(storedRecords.size, 20);
    assert.equal(hasLoadedSamples(options.dataDir), false);
    const recordsWithImages = [...storedRecords.values()].filter((text) =>
      text.includes('127.0.0.1:8002'),
    );
    assert.ok(recordsWithImages.length > 0);

    const imagesOrigin = 'http://127.0.0.1:9002';
    const { state } = await send(url, { ...options, imagesOrigin });
    assert.ok(hasLoadedSamples(options.dataDir));
    assert.equal(storedRecords.size, Number(state) + recordsWithImages.length);
  });

  test('the summary appears when all samples are sent, and processed samples are reported', async () => {
    const { url, storedRecords } = await startCollector(
      () => undefined,
      [
        { status: 503, headers: { 'retry-after': '0' }, body: { title: 'Not now' } },
        { body: { counts: { ...EMPTY_QUEUE_COUNTS, processing: 1 } } },
        { body: { counts: EMPTY_QUEUE_COUNTS } },
      ],
    );
    let processedCount = 0;
    const { state, lines } = await send(url, {
      onProcessed: () => {
        processedCount += 1;
        return undefined;
      },
    });
    assert.equal(state, storedRecords.size);
    await until('a report', () => lines.length === 1);
    const counts = '92 completed, 3 no listing, 0 failed';
    assert.deepEqual(lines, [`The sample listings are processed. The collector has ${counts}.`]);
    assert.equal(processedCount, 1);
  });

  test('a rate limit is reported once and does not delay the summary', async () => {
    const { url, storedRecords } = await startCollector(
      (index) => (index > 5 && index <= 10 ? LIMIT : undefined),
      [{ body: { counts: { ...EMPTY_QUEUE_COUNTS, completed: null } } }],
    );
    const { state, lines } = await send(url);
    assert.equal(state, 'being sent');
    await until('both reports', () => lines.length === 2);
    assert.deepEqual(lines, [
      'Sending the sample listings: the collector responded with status 429: No more than 5 a minute. Retrying.',
      // The message omits the counts while one of them is null.
      'The sample listings are processed.',
    ]);
    assert.ok(storedRecords.size > 90);
  });

  const rejections: [name: string, response: ScriptedResponse, expectedReason: string][] = [
    [
      'a rejected payload',
      { status: 409, body: { title: 'No', detail: 'The key is in use.' } },
      'the collector responded with status 409: The key is in use',
    ],
    [
      'a limit of a day',
      { status: 429, headers: { 'retry-after': '86400' }, body: { title: 'No more sources.' } },
      'the collector responded with status 429: No more sources: run the command again in 24 hours',
    ],
  ];
  for (const [name, response, expectedReason] of rejections) {
    test(`${name} is reported in a line, and the next start continues`, async () => {
      const { url } = await startCollector((index) => (index > 10 ? response : undefined));
      const { state, lines } = await send(url);
      assert.equal(state, 0);
      await until('a report', () => lines.length === 1);
      assert.deepEqual(lines, [
        `The sample listings could not all be sent: ${expectedReason}. The next start continues.`,
      ]);
    });
  }
});

suite('settings', () => {
  test('webhooks go to the address that the assistant listens on', () => {
    const cases: [env: Record<string, string>, host: string][] = [
      [{}, '127.0.0.1:8000'],
      [{ ASSISTANT_PORT: '9000', BASE_URL: 'https://oselya.example' }, '127.0.0.1:9000'],
      [{ ASSISTANT_HOST: '0.0.0.0' }, '127.0.0.1:8000'],
      [{ ASSISTANT_HOST: '::' }, '[::1]:8000'],
      [{ ASSISTANT_HOST: '::1' }, '[::1]:8000'],
      [{ ASSISTANT_HOST: 'localhost' }, 'localhost:8000'],
      [{ ASSISTANT_HOST: '192.0.2.7' }, '192.0.2.7:8000'],
    ];
    for (const [env, host] of cases) {
      assert.equal(readSettings(env).webhookUrl, `http://${host}/webhooks/idp`);
    }
  });

  test('ignored variables of another identity provider are named', () => {
    const usedEnv = { IDP_CLIENT_ID: ' ', IDP_DISCOVERY: 'true' };
    assert.deepEqual(readSettings(usedEnv).ignoredVariables, []);
    const env = { IDP_BASE_URL: 'https://id.example', IDP_CLIENT_SECRET: 'x', IDP_TIMEOUT_MS: '9' };
    assert.deepEqual(readSettings(env).ignoredVariables, ['IDP_BASE_URL', 'IDP_CLIENT_SECRET']);
  });
});

suite('summary', () => {
  const data: SummaryData = {
    assistantUrl: 'http://127.0.0.1:8000',
    collectorUrl: 'http://127.0.0.1:8001',
    idpUrl: 'http://127.0.0.1:8002',
    dataDir: resolve('var'),
    isEmbedded: true,
    accounts: [],
    seconds: 1,
    samples: 0,
    requiresKeys: true,
    ignoredVariables: [],
  };
  const format = (overrides: Partial<SummaryData>) => formatSummary({ ...data, ...overrides });

  test('the advice about a key names its database', () => {
    assert.match(format({}), /with {2}npx oselya api-key create NAME/);
    const quotedSummary = format({ dataDir: "/srv/my data's" });
    assert.ok(
      quotedSummary.includes("DATA_DIR='/srv/my data'\\''s' npx oselya api-key create NAME"),
    );
    assert.match(format({ isEmbedded: false }), /DATABASE_URL=… npx oselya api-key create NAME/);
  });

  test('the chat is offered with and without required API keys', () => {
    for (const requiresKeys of [false, true]) {
      assert.match(format({ requiresKeys }), /^ {4}npx oselya chat двокімнатна .*$/m);
      const assistantUrl = 'http://127.0.0.1:9000';
      assert.match(
        format({ requiresKeys, assistantUrl }),
        /^ {4}npx oselya chat --url http:\/\/127\.0\.0\.1:9000 двокімнатна .*$/m,
      );
    }
  });

  test('ignored variables are named with the command to use', () => {
    assert.doesNotMatch(format({}), /Ignored/);
    const summary = format({ ignoredVariables: ['IDP_BASE_URL', 'IDP_CLIENT_ID'] });
    assert.match(summary, /Ignored, .*: IDP_BASE_URL, IDP_CLIENT_ID\n.*npx oselya assistant/);
  });
});
