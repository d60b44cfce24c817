import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Maintenance, ReadOutcome, Reading } from '@oselya/collector';
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
function tenListings(events: { onRead?: (id: number) => void; onWrite?: (id: number) => void }) {
  const written: number[] = [];
  const work: Maintenance['reprocess'] = {
    current: { promptVersion: 'v2', requestedModel: 'better' },
    count: ({ after = 0 }) => Promise.resolve(10 - after),
    async *read({ after = 0 }, { signal }) {
      for (let id = after + 1; id <= 10; id += 1) {
        events.onRead?.(id);
        signal.throwIfAborted();
        yield await Promise.resolve(reading(id));
      }
    },
    write: async ({ listingId }) => {
      await Promise.resolve();
      events.onWrite?.(listingId);
      written.push(listingId);
      return 'written';
    },
  };
  return { written, maintenance: { reprocess: work, parallel: 1 } };
}

/** Runs it for somebody at a terminal, and gives also what they were asked. */
async function runAt(
  { maintenance }: ReturnType<typeof tenListings>,
  options: Partial<ReprocessOptions> & { answer?: boolean } = {},
) {
  const { answer = true, ...rest } = options;
  const questions: string[] = [];
  const { stopped } = await reprocess(maintenance, {
    choice: {},
    limit: Infinity,
    dryRun: false,
    yes: false,
    verbose: false,
    signal: new AbortController().signal,
    print: () => undefined,
    ask: (question) => {
      questions.push(question);
      return Promise.resolve(answer);
    },
    ...rest,
  });
  return { stopped, questions };
}

const upTo = (last: number) => Array.from({ length: last }, (_, nth) => nth + 1);

test('what was read before somebody stopped it may still be written', async () => {
  const stop = new AbortController();
  const onRead = (id: number) => {
    if (id === 5) stop.abort();
  };
  const yes = tenListings({ onRead });
  assert.deepEqual(await runAt(yes, { signal: stop.signal }), {
    stopped: { after: 4 },
    questions: ['It stopped. Write the 4 listings that were read by then?'],
  });
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
  const run = { dryRun: true, signal: stop.signal };
  assert.deepEqual(await runAt(listings, run), { stopped: { after: 4 }, questions: [] });
  assert.deepEqual(await runAt(tenListings({})), {
    stopped: undefined,
    questions: ['Write 10 listings?'],
  });
});
