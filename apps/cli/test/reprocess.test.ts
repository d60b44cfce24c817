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
import { suite, test } from 'node:test';

/** Creates the options of a run, and collects its questions, lines and progress. */
function createRun(answer: boolean) {
  const questions: string[] = [];
  const lines: string[] = [];
  const [stdout, stderr] = [new PassThrough(), new PassThrough()];
  const options = {
    selection: {},
    limit: Infinity,
    dryRun: false,
    yes: false,
    signal: new AbortController().signal,
    context: { print: (...printed: string[]) => lines.push(...printed), stdout, stderr },
    confirm: (question: string) => {
      questions.push(question);
      return Promise.resolve(answer);
    },
  };
  return { options, questions, lines, stderr };
}

type RunOptions = Partial<Parameters<typeof reprocessImages>[1]> & { answer?: boolean };

suite('listings', () => {
  const createReading = (listingId: number): ExtractionOutcome => ({
    outcome: 'read',
    listingId,
    rawId: listingId,
    extractionRecord: { requestedModel: 'better' } as RepeatedExtraction['extractionRecord'],
    changes: {},
  });

  /** Creates a fake service with ten listings. */
  function createListings(events: {
    onRead?: (id: number) => void;
    onWrite?: (id: number) => void | Promise<void>;
    parallel?: number;
    failure?: (id: number) => Extract<ExtractionOutcome, { outcome: 'failed' }> | undefined;
    outcomeOf?: (id: number) => WriteOutcome;
  }) {
    const writtenIds: number[] = [];
    const work: Maintenance['reprocess'] = {
      currentExtractor: { promptVersion: 'v2', requestedModel: 'better' },
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
        writtenIds.push(listingId);
        return events.outcomeOf?.(listingId) ?? { outcome: 'written' };
      },
    };
    return {
      written: writtenIds,
      maintenance: { reprocess: work, parallel: events.parallel ?? 1 },
    };
  }

  /** Runs the command, and returns its outcome, questions, lines and progress. */
  async function runReprocess(
    { maintenance }: ReturnType<typeof createListings>,
    { answer = true, ...overrides }: RunOptions & { verbose?: boolean } = {},
  ) {
    const { options, questions, lines, stderr } = createRun(answer);
    const result = await reprocess(maintenance, { verbose: false, ...options, ...overrides });
    return { ...result, questions, lines, progress: String(stderr.read() ?? '') };
  }

  const listIds = (last: number) => Array.from({ length: last }, (_, index) => index + 1);

  /** Creates a fake service whose operator presses Ctrl-C at the fifth extraction. */
  function createStoppedListings() {
    const stopController = new AbortController();
    const listings = createListings({
      onRead(id) {
        if (id === 5) stopController.abort();
      },
    });
    return { listings, signal: stopController.signal };
  }

  test('The extractions before a stop can still be written', async () => {
    const { listings, signal } = createStoppedListings();
    const { earlyStop, questions } = await runReprocess(listings, { signal });
    assert.deepEqual(earlyStop, { after: 4 });
    assert.deepEqual(questions, ['It stopped. Write the 4 listings read so far?']);
    assert.deepEqual(listings.written, listIds(4));
  });

  test('A stop without a write changes nothing and continues from the start', async () => {
    const { listings, signal } = createStoppedListings();
    const options = { selection: { after: 2 }, signal, answer: false };
    assert.deepEqual((await runReprocess(listings, options)).earlyStop, { after: 2 });
    assert.deepEqual(listings.written, []);
  });

  test('A stopped write continues after the last written listing', async () => {
    const stopController = new AbortController();
    const listings = createListings({
      onWrite(id) {
        if (id === 3) stopController.abort();
      },
    });
    const { earlyStop } = await runReprocess(listings, { signal: stopController.signal });
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
    const { listings, signal } = createStoppedListings();
    const { earlyStop, questions } = await runReprocess(listings, { dryRun: true, signal });
    assert.deepEqual([earlyStop, questions], [{ after: 4 }, []]);
    const completeRun = await runReprocess(createListings({}));
    assert.equal(completeRun.earlyStop, undefined);
    assert.deepEqual(completeRun.questions, ['Write 10 listings?']);
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
  const MODEL_FAILURE = new Error('The model server responded with status 500.');
  const OUTCOMES: readonly ImageReprocessOutcome[] = [
    { listingId: 1, outcome: 'described' },
    { listingId: 2, outcome: 'left' },
    { listingId: 3, outcome: 'described' },
    { listingId: 4, outcome: 'failed', error: MODEL_FAILURE },
  ];

  /** Runs the command over four listings, and returns its outcome, lines and questions. */
  async function runImages({ answer = true, stop, ...overrides }: RunOptions & { stop?: number }) {
    const controller = new AbortController();
    const { options, questions, lines } = createRun(answer);
    const work: Maintenance['reprocessImages'] = {
      count: () => Promise.resolve(OUTCOMES.length),
      async *describe(_selection, { signal }) {
        for (const [index, outcome] of OUTCOMES.entries()) {
          if (index + 1 === stop) controller.abort();
          yield await Promise.resolve(outcome);
          if (signal.aborted) return;
        }
      },
    };
    const { signal } = controller;
    const run = await reprocessImages(work, { ...options, signal, ...overrides });
    return { ...run, lines, questions };
  }

  const COUNT_LINE = '4 listings have images that another prompt or model described, or none.';

  test('The images are described after a yes, and the outcomes are reported', async () => {
    assert.deepEqual(await runImages({}), {
      failedCount: 1,
      earlyStop: undefined,
      lines: [
        COUNT_LINE,
        'listing 4: failed: The model server responded with status 500.',
        'The images of 2 listings were described.',
        '  1 have no completed payload, and stay unchanged',
        '  1 failed, and stay unchanged: see the reasons above',
      ],
      questions: ['Describe those of 4 listings?'],
    });
  });

  test('A dry run or a no changes nothing', async () => {
    for (const [options, questionCount] of [
      [{ dryRun: true }, 0],
      [{ answer: false }, 1],
    ] as const) {
      const { lines, questions } = await runImages(options);
      assert.deepEqual(lines, [COUNT_LINE, 'Nothing was changed.']);
      assert.equal(questions.length, questionCount);
    }
  });

  test('With --yes there is no question, and a stopped run reports its outcomes', async () => {
    const { questions, earlyStop, lines } = await runImages({ yes: true, stop: 1 });
    assert.deepEqual([questions, earlyStop], [[], { after: 1 }]);
    assert.equal(lines.at(-1), 'The images of 1 listings were described.');
  });
});

suite('reports', () => {
  type Read = Extract<ExtractionOutcome, { outcome: 'read' }>;

  const read = (listingId: number, changes: Read['changes']): ExtractionOutcome => {
    const extractionRecord = {} as Read['extractionRecord'];
    return { outcome: 'read', listingId, rawId: listingId, extractionRecord, changes };
  };

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
    const writtenCounts = {
      written: 5,
      incomplete: 6,
      changed: 4,
      queued: 3,
      kept: 2,
      failed: 1,
    };
    assert.deepEqual(describeWritten({ ...createReprocessSummary(), written: writtenCounts }), [
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
  /** Asks a question, and returns the streams and the answer. */
  function ask({
    signal,
    onInterrupt = assert.fail,
  }: { signal?: AbortSignal; onInterrupt?: () => void } = {}) {
    const [stdin, stderr] = [new PassThrough(), Object.assign(new PassThrough(), { isTTY: true })];
    const options = { signal, onInterrupt };
    return { stdin, stderr, answer: confirm('Write 4 listings?', options, { stdin, stderr }) };
  }

  test('Only y and yes confirm', async () => {
    for (const input of ['y\n', 'Yes\n', 'n\n', '\n', 'yesterday\n', '']) {
      const { stdin, stderr, answer } = ask();
      stdin.end(input);
      assert.equal(await answer, input === 'y\n' || input === 'Yes\n', input);
      assert.match(String(stderr.read()), /Write 4 listings\? \[y\/N\] /);
    }
  });

  test('An aborted question counts as no', async () => {
    const stopController = new AbortController();
    const { answer } = ask({ signal: stopController.signal });
    stopController.abort();
    assert.equal(await answer, false);
  });

  test('Ctrl-C counts as no and calls onInterrupt', async () => {
    for (const aborts of [true, false]) {
      const stopController = new AbortController();
      let interruptCount = 0;
      const { stdin, answer } = ask({
        ...(aborts && { signal: stopController.signal }),
        onInterrupt() {
          interruptCount += 1;
          stopController.abort();
        },
      });
      stdin.write('\u0003');
      assert.equal(await answer, false);
      assert.equal(interruptCount, 1);
    }
  });
});
