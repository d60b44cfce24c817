import assert from 'node:assert/strict';
import { PassThrough } from 'node:stream';
import { text } from 'node:stream/consumers';
import { test } from 'node:test';
import { ask } from '../../src/reprocess/ask.ts';

/** Asks somebody who types this, and gives also what they saw. */
async function asked(typed: string) {
  const [stdin, stderr] = [new PassThrough(), new PassThrough()];
  const how = { takeBack: undefined, onInterrupt: assert.fail };
  const answer = ask('Write 4 listings?', how, { stdin, stderr });
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
  const how = { takeBack: stop.signal, onInterrupt: assert.fail };
  const answer = ask('Write 4 listings?', how, {
    stdin: new PassThrough(),
    stderr: new PassThrough(),
  });
  stop.abort();
  assert.equal(await answer, false);
});

test('Ctrl-C is a no, and told, whether or not it takes the question back', async () => {
  for (const takesBack of [true, false]) {
    const stop = new AbortController();
    let interrupts = 0;
    const stdin = new PassThrough();
    const how = {
      takeBack: takesBack ? stop.signal : undefined,
      onInterrupt() {
        interrupts += 1;
        stop.abort();
      },
    };
    const stderr = Object.assign(new PassThrough(), { isTTY: true });
    const answer = ask('Write 4 listings?', how, { stdin, stderr });
    stdin.write('\u0003');
    assert.equal(await answer, false);
    assert.equal(interrupts, 1);
  }
});
