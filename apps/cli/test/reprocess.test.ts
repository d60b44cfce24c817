import assert from 'node:assert/strict';
import { confirm } from '../src/progress.ts';
import { reprocess, reprocessImages } from '../src/reprocess/reprocess.ts';
import {
  countExtraction,
  createReprocessSummary,
  describeExtraction,
  describeExtractions,
  describeWritten,
} from '../src/reprocess/summary.ts';
import {
  ModelError,
  type ImageReprocessOutcome,
  type Maintenance,
  type ExtractionOutcome,
  type RepeatedExtraction,
  type WriteOutcome,
} from '@oselya/collector';
import { PassThrough } from 'node:stream';
import { text } from 'node:stream/consumers';
import { suite, test } from 'node:test';

suite('listings', () => {
  const createReading = (listingId: number): ExtractionOutcome => ({
    outcome: 'read',
    listingId,
    rawId: listingId,
    extracted: { requestedModel: 'better' } as RepeatedExtraction['extracted'],
    changes: {},
  });

  /** Creates a fake service of ten listings. */
  function createListings(events: {
    onRead?: (id: number) => void;
    onWrite?: (id: number) => void | Promise<void>;
    parallel?: number;
    failure?: (id: number) => Extract<ExtractionOutcome, { outcome: 'failed' }> | undefined;
    outcomeOf?: (id: number) => WriteOutcome;
  }) {
    const written: number[] = [];
    const work: Maintenance['reprocess'] = {
      current: { promptVersion: 'v2', requestedModel: 'better' },
      count: ({ after = 0 }) => Promise.resolve(10 - after),
      async *read({ after = 0 }, { signal }) {
        for (let id = after + 1; id <= 10; id += 1) {
          events.onRead?.(id);
          signal.throwIfAborted();
          yield await Promise.resolve(events.failure?.(id) ?? createReading(id));
        }
      },
      write: async ({ listingId }) => {
        await events.onWrite?.(listingId);
        written.push(listingId);
        return events.outcomeOf?.(listingId) ?? { outcome: 'written' };
      },
    };
    return { written, maintenance: { reprocess: work, parallel: events.parallel ?? 1 } };
  }

  /** Runs the command, and returns its outcome, questions, lines and progress. */
  async function runReprocess(
    { maintenance }: ReturnType<typeof createListings>,
    options: Partial<Parameters<typeof reprocess>[1]> & { answer?: boolean } = {},
  ) {
    const { answer = true, ...overrides } = options;
    const questions: string[] = [];
    const lines: string[] = [];
    const [stdout, stderr] = [new PassThrough(), new PassThrough()];
    const { earlyStop, failedCount } = await reprocess(maintenance, {
      selection: {},
      limit: Infinity,
      dryRun: false,
      yes: false,
      verbose: false,
      signal: new AbortController().signal,
      context: { print: (...printed) => lines.push(...printed), stdout, stderr },
      confirm: (question) => {
        questions.push(question);
        return Promise.resolve(answer);
      },
      ...overrides,
    });
    return { earlyStop, questions, lines, failedCount, progress: String(stderr.read() ?? '') };
  }

  const listIds = (last: number) => Array.from({ length: last }, (_, index) => index + 1);

  test('The extractions before a stop can still be written', async () => {
    const stop = new AbortController();
    const onRead = (id: number) => {
      if (id === 5) stop.abort();
    };
    const yes = createListings({ onRead });
    const { earlyStop, questions } = await runReprocess(yes, { signal: stop.signal });
    assert.deepEqual(earlyStop, { after: 4 });
    assert.deepEqual(questions, ['It stopped. Write the 4 listings read so far?']);
    assert.deepEqual(yes.written, listIds(4));
  });

  test('A stop without a write changes nothing and continues from the start', async () => {
    const stop = new AbortController();
    const onRead = (id: number) => {
      if (id === 5) stop.abort();
    };
    const no = createListings({ onRead });
    const options = { selection: { after: 2 }, signal: stop.signal, answer: false };
    assert.deepEqual((await runReprocess(no, options)).earlyStop, { after: 2 });
    assert.deepEqual(no.written, []);
  });

  test('A stopped write continues after the last written listing', async () => {
    const stop = new AbortController();
    const listings = createListings({
      onWrite(id) {
        if (id === 3) stop.abort();
      },
    });
    const { earlyStop } = await runReprocess(listings, { signal: stop.signal });
    assert.ok(earlyStop?.after !== undefined && earlyStop.after < 10);
    assert.deepEqual(listings.written, listIds(earlyStop.after));
  });

  test('A failed write continues with the failed listing', async () => {
    const error = new Error('The database is away.');
    for (const yes of [true, false]) {
      const listings = createListings({
        onWrite(id) {
          if (id === 6) throw error;
        },
      });
      assert.deepEqual((await runReprocess(listings, { yes })).earlyStop, { after: 5, error });
      assert.deepEqual(listings.written, listIds(5));
    }
  });

  test('After several failed writes the run continues with the first failed listing', async () => {
    const error = new Error('Listing 2 cannot be written.');
    const fourthWrite = Promise.withResolvers<void>();
    const listings = createListings({
      parallel: 3,
      async onWrite(id) {
        if (id === 4) {
          fourthWrite.resolve();
          throw new Error('Listing 4 cannot be written.');
        }
        if (id !== 2) return;
        await fourthWrite.promise;
        throw error;
      },
    });
    const { earlyStop } = await runReprocess(listings, { yes: true });
    assert.deepEqual(earlyStop, { after: 1, error });
  });

  test('A stopped dry run asks no question, and names its last listing', async () => {
    const stop = new AbortController();
    const onRead = (id: number) => {
      if (id === 5) stop.abort();
    };
    const listings = createListings({ onRead });
    const { earlyStop, questions } = await runReprocess(listings, {
      dryRun: true,
      signal: stop.signal,
    });
    assert.deepEqual([earlyStop, questions], [{ after: 4 }, []]);
    const completeRun = await runReprocess(createListings({}));
    assert.deepEqual(
      [completeRun.earlyStop, completeRun.questions],
      [undefined, ['Write 10 listings?']],
    );
  });

  test('Progress is shown on standard error unless every change is printed to a terminal', async () => {
    const options = { dryRun: true, verbose: true };
    const { progress } = await runReprocess(createListings({}), options);
    assert.match(progress, /^10 of 10 listings: 0 would change$/m);
    const [stdout, stderr] = [Object.assign(new PassThrough(), { isTTY: true }), new PassThrough()];
    const context = { print: () => undefined, stdout, stderr };
    await runReprocess(createListings({}), { ...options, context });
    assert.equal(stderr.read(), null);
  });

  test('Each failure is reported with its listing and reason', async () => {
    const outcomes = ['incomplete', 'kept', 'failed', 'queued'] as const;
    const listings = createListings({
      failure: (listingId) =>
        listingId === 2
          ? { outcome: 'failed', listingId, error: new ModelError('MODEL_TRUNCATED', 'Cut\noff.') }
          : undefined,
      outcomeOf(id) {
        const outcome = outcomes[id - 5];
        return outcome === undefined
          ? { outcome: 'written' }
          : { outcome, error: new Error(`Reason ${id}.`) };
      },
    });
    const { lines, failedCount, earlyStop } = await runReprocess(listings, { yes: true });
    assert.equal(earlyStop, undefined);
    assert.deepEqual(
      lines.filter((line) => line.startsWith('listing ')),
      [
        'listing 2: failed: Cut off.',
        'listing 5: incomplete: Reason 5.',
        'listing 6: kept: Reason 6.',
        'listing 7: failed: Reason 7.',
        'listing 8: queued: Reason 8.',
      ],
    );
    assert.equal(failedCount, 4);
  });
});

suite('images', () => {
  const MODEL_FAILURE = new Error('The model server answered 500.');
  const OUTCOMES: readonly ImageReprocessOutcome[] = [
    { listingId: 1, outcome: 'described' },
    { listingId: 2, outcome: 'left' },
    { listingId: 3, outcome: 'described' },
    { listingId: 4, outcome: 'failed', error: MODEL_FAILURE },
  ];

  /** Runs the command over four listings, and returns its outcome, lines and questions. */
  async function runImages(
    options: Partial<Parameters<typeof reprocessImages>[1]> & {
      answer?: boolean;
      stop?: number;
    } = {},
  ) {
    const { answer = true, stop, ...overrides } = options;
    const controller = new AbortController();
    const lines: string[] = [];
    const questions: string[] = [];
    const work: Maintenance['reprocessImages'] = {
      count: () => Promise.resolve(OUTCOMES.length),
      async *describe(_choice, { signal }) {
        for (const [index, outcome] of OUTCOMES.entries()) {
          if (index + 1 === stop) controller.abort();
          yield await Promise.resolve(outcome);
          if (signal.aborted) return;
        }
      },
    };
    const run = await reprocessImages(work, {
      selection: {},
      limit: Infinity,
      dryRun: false,
      yes: false,
      signal: controller.signal,
      context: {
        print: (...printed) => lines.push(...printed),
        stdout: new PassThrough(),
        stderr: new PassThrough(),
      },
      confirm: (question) => {
        questions.push(question);
        return Promise.resolve(answer);
      },
      ...overrides,
    });
    return { ...run, lines, questions };
  }

  const COUNT_LINE = '4 listings have images that another prompt or model described, or none.';

  test('The images are described after a yes, and the outcomes are reported', async () => {
    assert.deepEqual(await runImages(), {
      failedCount: 1,
      earlyStop: undefined,
      lines: [
        COUNT_LINE,
        'listing 4: failed: The model server answered 500.',
        'The images of 2 listings were described.',
        '  1 have no completed payload, and stay unchanged',
        '  1 failed, and stay unchanged: see the reasons above',
      ],
      questions: ['Describe those of 4 listings?'],
    });
  });

  for (const [name, options, questions] of [
    ['A dry run', { dryRun: true }, 0],
    ['A no', { answer: false }, 1],
  ] as const) {
    test(`${name} changes nothing`, async () => {
      const run = await runImages(options);
      assert.deepEqual(run.lines, [COUNT_LINE, 'Nothing was changed.']);
      assert.equal(run.questions.length, questions);
    });
  }

  test('With --yes there is no question, and a stopped run reports its outcomes', async () => {
    const { questions, earlyStop, lines } = await runImages({ yes: true, stop: 1 });
    assert.deepEqual(
      [questions, earlyStop, lines.at(-1)],
      [[], { after: 1 }, 'The images of 1 listings were described.'],
    );
  });
});

suite('reports', () => {
  type Read = Extract<ExtractionOutcome, { outcome: 'read' }>;

  const read = (listingId: number, changes: Read['changes']): ExtractionOutcome => ({
    outcome: 'read',
    listingId,
    rawId: listingId,
    extracted: {} as Read['extracted'],
    changes,
  });

  const OUTCOMES: readonly ExtractionOutcome[] = [
    read(1, { rooms: { from: 2, to: 3 }, city: { from: null, to: 'Львів' } }),
    read(2, { rooms: { from: 1, to: 2 } }),
    read(3, {}),
    { outcome: 'not_a_listing', listingId: 4, reason: 'A\nservice.' },
    { outcome: 'failed', listingId: 5, error: new ModelError('MODEL_TRUNCATED', 'Cut off.') },
    { outcome: 'payload_gone', listingId: 6 },
    { outcome: 'in_progress', listingId: 7 },
    { outcome: 'in_progress', listingId: 8 },
  ];

  test('The report counts changed fields, the most frequent first, and skipped listings', () => {
    const summary = createReprocessSummary();
    for (const outcome of OUTCOMES) countExtraction(summary, outcome);
    assert.deepEqual(describeExtractions(summary), [
      '3 listings were read again: 2 would change.',
      '  rooms: 2',
      '  city: 1',
      '  1 are not listings for the model now, and stay unchanged',
      '  1 failed in the model',
      '  1 have no payload any more: it was cleaned up',
      '  2 have a payload in progress',
    ]);
  });

  test('The report counts written and unchanged listings', () => {
    const written = { written: 5, incomplete: 6, changed: 4, queued: 3, kept: 2, failed: 1 };
    assert.deepEqual(describeWritten({ ...createReprocessSummary(), written }), [
      '11 listings were written.',
      '  6 of them are incomplete: see the reasons above; oselya backfill-embeddings makes their embeddings',
      '  4 have a newer payload, and stay unchanged',
      '  3 are back in the queue',
      '  2 could not be written, and stay unchanged: see the reasons above',
      '  1 failed: see their payloads, and retry them',
    ]);
  });

  test('Each change is a line of limited length', () => {
    const long = 'x'.repeat(100);
    assert.deepEqual(
      [read(9, { title: { from: 'two\nlines', to: long } }), ...OUTCOMES.slice(3, 6)].flatMap(
        describeExtraction,
      ),
      [
        `listing 9: title: "two\\nlines" → "${'x'.repeat(58)}…`,
        'listing 4: not a listing: A service.',
        'listing 5: failed: Cut off.',
      ],
    );
  });
});

suite('questions', () => {
  /** Asks a question, and returns the answer to the typed text and the output. */
  async function askQuestion(input: string) {
    const [stdin, stderr] = [new PassThrough(), new PassThrough()];
    const confirmOptions = { signal: undefined, onInterrupt: assert.fail };
    const answer = confirm('Write 4 listings?', confirmOptions, { stdin, stderr });
    stdin.end(input);
    const isYes = await answer;
    stderr.end();
    return [isYes, await text(stderr)];
  }

  test('Only y and yes confirm', async () => {
    const question = 'Write 4 listings? [y/N] ';
    for (const input of ['y\n', 'Yes\n'])
      assert.deepEqual(await askQuestion(input), [true, question]);
    for (const input of ['n\n', '\n', 'yesterday\n', '']) {
      assert.deepEqual(await askQuestion(input), [false, question]);
    }
  });

  test('An aborted question counts as no', async () => {
    const stop = new AbortController();
    const confirmOptions = { signal: stop.signal, onInterrupt: assert.fail };
    const answer = confirm('Write 4 listings?', confirmOptions, {
      stdin: new PassThrough(),
      stderr: new PassThrough(),
    });
    stop.abort();
    assert.equal(await answer, false);
  });

  test('Ctrl-C counts as no and calls onInterrupt', async () => {
    for (const aborts of [true, false]) {
      const stop = new AbortController();
      let interrupts = 0;
      const stdin = new PassThrough();
      const confirmOptions = {
        signal: aborts ? stop.signal : undefined,
        onInterrupt() {
          interrupts += 1;
          stop.abort();
        },
      };
      const stderr = Object.assign(new PassThrough(), { isTTY: true });
      const answer = confirm('Write 4 listings?', confirmOptions, { stdin, stderr });
      stdin.write('\u0003');
      assert.equal(await answer, false);
      assert.equal(interrupts, 1);
    }
  });
});
