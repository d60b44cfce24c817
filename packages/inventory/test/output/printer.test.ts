import assert from 'node:assert/strict';
import { Writable } from 'node:stream';
import { setImmediate } from 'node:timers/promises';
import { test } from 'node:test';
import { Printer, WriteError } from '../../src/output/printer.ts';

test('it writes no faster than its reader takes', async () => {
  const waiting: (() => void)[] = [];
  const stream = new Writable({
    highWaterMark: 4,
    write: (_chunk, _encoding, done) => void waiting.push(done),
  });
  const printer = new Printer(stream);
  let isWritten = false;
  async function write() {
    await printer.write('12345');
    isWritten = true;
  }
  const written = write();
  await setImmediate();
  assert.equal(isWritten, false);
  waiting.shift()?.();
  await written;
  assert.equal(stream.listenerCount('drain'), 0);
});

test('a broken pipe drops the rest; other failures are thrown', async () => {
  for (const [code, isThrown] of [
    ['EPIPE', false],
    ['ENOSPC', true],
  ] as const) {
    let writes = 0;
    const stream = new Writable({
      highWaterMark: 1,
      write(_chunk, _encoding, done) {
        writes += 1;
        done(Object.assign(new Error(code), { code }));
      },
    });
    const printer = new Printer(stream);
    await printer.write('first');
    assert.equal(printer.isClosed, true);
    if (isThrown) {
      await assert.rejects(printer.write('second'), WriteError);
      await assert.rejects(printer.end(), WriteError);
    } else {
      await printer.write('second');
      await printer.end();
    }
    assert.equal(writes, 1);
  }
});

test('a stream that is destroyed while it is full does not hold the command', async () => {
  const stream = new Writable({ highWaterMark: 1, write: () => {} });
  const printer = new Printer(stream);
  const written = printer.write('text');
  stream.destroy();
  await written;
  await printer.write('more');
  assert.equal(printer.isClosed, true);
});

test('the end waits for what is still to be written, and tells when the last of it was not', async () => {
  for (const isLate of [false, true]) {
    let isTold = false;
    const stream = new Writable({
      write(_chunk, _encoding, done) {
        const fail = () => {
          isTold = true;
          done(Object.assign(new Error('full'), { code: 'ENOSPC' }));
        };
        if (isLate) setTimeout(fail, 20);
        else fail();
      },
    });
    const printer = new Printer(stream);
    await printer.write('all of it');
    await assert.rejects(printer.end(), /no space left/);
    assert.ok(isTold);
  }
});

test('the end does not wait for a stream that is destroyed', async () => {
  const stream = new Writable({ write: () => {} });
  const printer = new Printer(stream);
  await printer.write('text');
  const ended = printer.end();
  stream.destroy();
  await ended;
});

test('no more pieces are made than the reader takes, and none when it has gone', async () => {
  let made = 0;
  function* pieces() {
    for (; made < 1000; made += 1) yield 'x'.repeat(32 * 1024);
  }
  const waiting: (() => void)[] = [];
  const stream = new Writable({
    highWaterMark: 1024,
    write: (_chunk, _encoding, done) => void waiting.push(done),
  });
  const printer = new Printer(stream);
  const written = printer.writeAll(pieces());
  await setImmediate();
  const first = made;
  assert.ok(first < 5, `${first} made`);
  waiting.shift()?.();
  await setImmediate();
  assert.ok(made > first && made < 10, `${made} made`);
  stream.destroy();
  await written;
  assert.ok(made < 10, `${made} made`);
});
