import assert from 'node:assert/strict';
import { test } from 'node:test';
import { showProgress } from '../src/progress.ts';

/** What standard error is, as far as progress asks; all that is written to it can be read. */
function output(isTTY: boolean) {
  const chunks: string[] = [];
  const stream: Partial<NodeJS.WriteStream> = {
    isTTY,
    columns: 200,
    write: (chunk: Uint8Array | string) => chunks.push(String(chunk)) > 0,
  };
  // readline asks for no more than `write` to move the cursor.
  return { stream: stream as NodeJS.WriteStream, written: () => chunks.splice(0).join('') };
}

const HIDE_CURSOR = '\u001B[?25l';
const SHOW_CURSOR = '\u001B[?25h';
const CLEAR_LINE = '\u001B[2K';

test('on a terminal a bar tells how far it is, and leaves the cursor and its last state', () => {
  const { stream, written } = output(true);
  const progress = showProgress({ what: 'listings', total: 4 }, stream);
  const first = written();
  assert.ok(first.includes(HIDE_CURSOR));
  assert.match(first, /░{30} 0\/4 listings/);

  progress.update(1, '1 would change');
  progress.clear();
  const cleared = written();
  assert.ok(cleared.includes(CLEAR_LINE), 'a line of output gets an empty line');
  assert.ok(!cleared.includes('\n'));

  progress.update(3, '2 would change');
  progress.stop();
  const last = written();
  assert.match(last, /█{22,23}░{7,8} 3\/4 listings 2 would change \| .* left/);
  assert.ok(last.includes(SHOW_CURSOR));
  assert.ok(last.endsWith('\n'), 'the next line of output stands by itself');
});

test('a process that ends in between gives the terminal its cursor back', () => {
  const { stream, written } = output(true);
  const others = new Set(process.listeners('exit'));
  const progress = showProgress({ what: 'listings', total: 4 }, stream);
  const onExit = process.listeners('exit').find((listener) => !others.has(listener));
  onExit?.(130);
  const left = written();
  progress.stop();
  assert.ok(left.includes(SHOW_CURSOR));
  assert.deepEqual(new Set(process.listeners('exit')), others);
});

test('without a terminal there is a line for each tenth and the end, and nothing that moves a cursor', () => {
  const { stream, written } = output(false);
  const progress = showProgress({ what: 'listings', total: 25 }, stream);
  for (let done = 0; done <= 25; done += 1) progress.update(done, done === 25 ? '9 embedded' : '');
  progress.update(25, '9 embedded');
  progress.clear();
  progress.stop();
  const lines = [3, 6, 9, 12, 15, 18, 21, 24].map((done) => `${done} of 25 listings`);
  assert.equal(written(), [...lines, '25 of 25 listings: 9 embedded', ''].join('\n'));
});
