import assert from 'node:assert/strict';
import { PassThrough } from 'node:stream';
import { test } from 'node:test';
import {
  type Maintenance,
  ModelError,
  type ReadOutcome,
  type Reading,
  type WriteOutcome,
} from '@oselya/collector';
import { reprocess, type ReprocessOptions } from '../../src/reprocess/reprocess.ts';

const reading = (listingId: number): ReadOutcome => ({
  outcome: 'read',
  listingId,
  rawId: listingId,
  // What was read is handed on as it is.
  extracted: { requestedModel: 'better' } as Reading['extracted'],
  changes: {},
});

/** Ten listings that are read and written one after another. */
function tenListings(events: {
  onRead?: (id: number) => void;
  onWrite?: (id: number) => void;
  failure?: (id: number) => Extract<ReadOutcome, { outcome: 'failed' }> | undefined;
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
        yield await Promise.resolve(events.failure?.(id) ?? reading(id));
      }
    },
    write: async ({ listingId }) => {
      await Promise.resolve();
      events.onWrite?.(listingId);
      written.push(listingId);
      return events.outcomeOf?.(listingId) ?? { outcome: 'written' };
    },
  };
  return { written, maintenance: { reprocess: work, parallel: 1 } };
}

/** Runs it for somebody who looks on, and gives also what they were asked, and how far they saw it come. */
async function runAt(
  { maintenance }: ReturnType<typeof tenListings>,
  options: Partial<ReprocessOptions> & { answer?: boolean } = {},
) {
  const { answer = true, ...rest } = options;
  const questions: string[] = [];
  const lines: string[] = [];
  const [stdout, stderr] = [new PassThrough(), new PassThrough()];
  const { stopped, summary } = await reprocess(maintenance, {
    choice: {},
    limit: Infinity,
    dryRun: false,
    yes: false,
    verbose: false,
    signal: new AbortController().signal,
    print: (line) => lines.push(line),
    output: { stdout, stderr },
    ask: (question) => {
      questions.push(question);
      return Promise.resolve(answer);
    },
    ...rest,
  });
  return { stopped, questions, lines, summary, progress: String(stderr.read() ?? '') };
}

const upTo = (last: number) => Array.from({ length: last }, (_, nth) => nth + 1);

test('what was read before somebody stopped it may still be written', async () => {
  const stop = new AbortController();
  const onRead = (id: number) => {
    if (id === 5) stop.abort();
  };
  const yes = tenListings({ onRead });
  const { stopped, questions } = await runAt(yes, { signal: stop.signal });
  assert.deepEqual(stopped, { after: 4 });
  assert.deepEqual(questions, ['It stopped. Write the 4 listings that were read by then?']);
  assert.deepEqual(yes.written, upTo(4));
});

test('where that is not wanted nothing is done, and it goes on where it began', async () => {
  const stop = new AbortController();
  const onRead = (id: number) => {
    if (id === 5) stop.abort();
  };
  const no = tenListings({ onRead });
  const options = { choice: { after: 2 }, signal: stop.signal, answer: false };
  assert.deepEqual((await runAt(no, options)).stopped, { after: 2 });
  assert.deepEqual(no.written, []);
});

test('what was read before the model failed may still be written', async () => {
  const error = new Error('The model is away.');
  const failing = tenListings({
    onRead(id) {
      if (id === 8) throw error;
    },
  });
  assert.deepEqual((await runAt(failing)).stopped, { after: 7, error });
  assert.deepEqual(failing.written, upTo(7));
});

test('writing can be stopped, and goes on after the last that was written', async () => {
  const stop = new AbortController();
  const listings = tenListings({
    onWrite(id) {
      if (id === 3) stop.abort();
    },
  });
  const { stopped } = await runAt(listings, { signal: stop.signal });
  assert.ok(stopped?.after !== undefined && stopped.after < 10);
  assert.deepEqual(listings.written, upTo(stopped.after));
});

test('one that could not be written is where it goes on', async () => {
  const error = new Error('The database is away.');
  for (const yes of [true, false]) {
    const listings = tenListings({
      onWrite(id) {
        if (id === 6) throw error;
      },
    });
    assert.deepEqual((await runAt(listings, { yes })).stopped, { after: 5, error });
    assert.deepEqual(listings.written, upTo(5));
  }
});

test('a dry run that is stopped goes on where it was, and asks nothing', async () => {
  const stop = new AbortController();
  const onRead = (id: number) => {
    if (id === 5) stop.abort();
  };
  const listings = tenListings({ onRead });
  const { stopped, questions } = await runAt(listings, { dryRun: true, signal: stop.signal });
  assert.deepEqual([stopped, questions], [{ after: 4 }, []]);
  const whole = await runAt(tenListings({}));
  assert.deepEqual([whole.stopped, whole.questions], [undefined, ['Write 10 listings?']]);
});

test('progress is shown on standard error, unless every change is printed to a terminal', async () => {
  const { progress } = await runAt(tenListings({}), { dryRun: true, verbose: true });
  assert.match(progress, /^10 of 10 listings: 0 would change$/m);
  const [stdout, stderr] = [Object.assign(new PassThrough(), { isTTY: true }), new PassThrough()];
  await runAt(tenListings({}), { dryRun: true, verbose: true, output: { stdout, stderr } });
  assert.equal(stderr.read(), null);
});

test('each failure is told with its listing and its reason, and counted', async () => {
  const outcomes = ['incomplete', 'kept', 'failed', 'queued'] as const;
  const listings = tenListings({
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
  const { lines, summary, stopped } = await runAt(listings, { yes: true });
  assert.equal(stopped, undefined);
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
  const { changed: _none, ...written } = summary.written;
  assert.deepEqual(written, { written: 5, incomplete: 1, kept: 1, failed: 1, queued: 1 });
});
