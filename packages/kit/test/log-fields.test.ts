import assert from 'node:assert/strict';
import { setImmediate as next } from 'node:timers/promises';
import { test } from 'node:test';
import { createLogger } from '../src/logging.ts';
import { logFields, withLogFields, withOnlyLogFields } from '../src/log-fields.ts';

/** A logger whose lines a test reads, without what every line has. */
function capture() {
  const lines: Record<string, unknown>[] = [];
  const log = createLogger({
    level: 'info',
    service: 'test',
    destination: {
      write(line) {
        const {
          level: _,
          time: __,
          service: ___,
          ...rest
        } = JSON.parse(line) as Record<string, unknown>;
        lines.push(rest);
      },
    },
  });
  return { log, lines };
}

test('every line of a piece of work carries its fields, and no other does', async () => {
  const { log, lines } = capture();
  const work = (id: number) =>
    withLogFields({ id }, async () => {
      log.info('begins');
      await next();
      log.child({ part: 'child' }).info('goes on');
      return id;
    });
  assert.deepEqual(await Promise.all([work(1), work(2)]), [1, 2]);
  log.info('after');
  assert.deepEqual(lines, [
    { id: 1, msg: 'begins' },
    { id: 2, msg: 'begins' },
    { part: 'child', id: 1, msg: 'goes on' },
    { part: 'child', id: 2, msg: 'goes on' },
    { msg: 'after' },
  ]);
});

test("work within work keeps the outer fields, and a line's own win", async () => {
  const { log, lines } = capture();
  await withLogFields({ a: 1, b: 1 }, async () => {
    await withLogFields({ b: 2 }, async () => {
      log.info('inner');
      log.info({ b: 3 }, 'own');
      return Promise.resolve();
    });
    log.info('outer');
  });
  assert.deepEqual(lines, [
    { a: 1, b: 2, msg: 'inner' },
    { a: 1, b: 3, msg: 'own' },
    { a: 1, b: 1, msg: 'outer' },
  ]);
});

test('work of several carries what it is told, and nothing of whichever of them began it', async () => {
  const { log, lines } = capture();
  await withLogFields({ a: 1 }, async () => {
    const known = logFields();
    await withOnlyLogFields({ jobs: [known, { a: 2 }] }, async () => {
      log.info('shared');
      return Promise.resolve();
    });
    log.info('own');
  });
  assert.deepEqual(lines, [
    { jobs: [{ a: 1 }, { a: 2 }], msg: 'shared' },
    { a: 1, msg: 'own' },
  ]);
});

test('what lives longer than the work does not carry its fields', async () => {
  const { log, lines } = capture();
  const later = Promise.withResolvers<void>();
  let line: Promise<void> | undefined;
  const work = withLogFields({ id: 1 }, () => {
    line = later.promise.then(() => log.info('much later'));
    return Promise.reject(new Error('broken'));
  });
  await assert.rejects(work, /broken/);
  later.resolve();
  await line;
  assert.deepEqual(lines, [{ msg: 'much later' }]);
});
