import assert from 'node:assert/strict';
import { PassThrough } from 'node:stream';
import { test } from 'node:test';
import type { Described, Maintenance } from '@oselya/collector';
import { type PicturesOptions, reprocessPictures } from '../../src/reprocess/pictures.ts';

const REFUSED = new Error('The model server answered 500.');
const OUTCOMES: readonly Described[] = [
  { listingId: 1, outcome: 'described' },
  { listingId: 2, outcome: 'left' },
  { listingId: 3, outcome: 'described' },
  { listingId: 4, outcome: 'failed', error: REFUSED },
];

/** Runs it over four listings for somebody at a terminal, and gives what was printed and asked. */
async function runAt(options: Partial<PicturesOptions> & { answer?: boolean; stop?: number } = {}) {
  const { answer = true, stop, ...rest } = options;
  const controller = new AbortController();
  const lines: string[] = [];
  const questions: string[] = [];
  const work: Maintenance['reprocessPictures'] = {
    count: () => Promise.resolve(OUTCOMES.length),
    async *describe(_choice, { signal }) {
      for (const [nth, outcome] of OUTCOMES.entries()) {
        if (nth + 1 === stop) controller.abort();
        yield await Promise.resolve(outcome);
        if (signal.aborted) return;
      }
    },
  };
  const run = await reprocessPictures(
    { reprocessPictures: work },
    {
      choice: {},
      limit: Infinity,
      dryRun: false,
      yes: false,
      signal: controller.signal,
      print: (line) => lines.push(line),
      output: { stdout: new PassThrough(), stderr: new PassThrough() },
      ask: (question) => {
        questions.push(question);
        return Promise.resolve(answer);
      },
      ...rest,
    },
  );
  return { ...run, lines, questions };
}

const FOUND = '4 listings have pictures that another prompt or model described, or none.';

test('who is asked and agrees has them described, and is told what became of them', async () => {
  assert.deepEqual(await runAt(), {
    summary: { described: 2, left: 1, failed: 1 },
    stopped: undefined,
    lines: [
      FOUND,
      'listing 4: failed: The model server answered 500.',
      'The pictures of 2 listings were described.',
      '  1 have no payload that is completed, and were left alone',
      '  1 failed, and are as they were: the lines above say why',
    ],
    questions: ['Describe those of 4 listings?'],
  });
});

for (const [name, options, questions] of [
  ['a dry run', { dryRun: true }, 0],
  ['a no', { answer: false }, 1],
] as const) {
  test(`${name} changes nothing`, async () => {
    const run = await runAt(options);
    assert.deepEqual(run.lines, [FOUND, 'Nothing was changed.']);
    assert.deepEqual([run.summary.described, run.questions.length], [0, questions]);
  });
}

test('who has said yes before is not asked; a stopped run tells what was done by then', async () => {
  const { questions, stopped, lines } = await runAt({ yes: true, stop: 1 });
  assert.deepEqual(
    [questions, stopped, lines.at(-1)],
    [[], { after: 1 }, 'The pictures of 1 listings were described.'],
  );
});
