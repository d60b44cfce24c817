import assert from 'node:assert/strict';
import { PassThrough } from 'node:stream';
import { text } from 'node:stream/consumers';
import { test } from 'node:test';
import { ask } from '../../src/reprocess/ask.ts';

/** Asks somebody who types this, and gives also what they saw. */
async function asked(typed: string) {
  const [stdin, stderr] = [new PassThrough(), new PassThrough()];
  const answer = ask('Write 4 listings?', undefined, { stdin, stderr });
  stdin.end(typed);
  const isYes = await answer;
  stderr.end();
  return [isYes, await text(stderr)];
}

test('a yes is a yes, and all else is a no, the end of the input too', async () => {
  const shown = 'Write 4 listings? [y/N] ';
  for (const typed of ['y\n', 'Yes\n']) assert.deepEqual(await asked(typed), [true, shown]);
  for (const typed of ['n\n', '\n', 'yesterday\n', '']) {
    assert.deepEqual(await asked(typed), [false, shown]);
  }
});

test('a question is taken back with its signal, and that is a no', async () => {
  const stop = new AbortController();
  const io = { stdin: new PassThrough(), stderr: new PassThrough() };
  const answer = ask('Write 4 listings?', stop.signal, io);
  stop.abort();
  assert.equal(await answer, false);
});
