import assert from 'node:assert/strict';
import { test } from 'node:test';
import { setImmediate as next } from 'node:timers/promises';
import { createLogger, getLogFields, withLogFields, withIsolatedLogFields } from '../src/index.ts';

/** A logger, and the lines that it has written. */
function capture() {
  const lines: string[] = [];
  const destination = { write: (line: string) => lines.push(line) };
  return { log: createLogger({ level: 'info', service: 'test', destination }), lines };
}

class Client {
  readonly secretKey = 'a-secret-key';
}

/** An error as drivers and clients make them: with whatever they hold. */
const failure = () =>
  Object.assign(
    new Error('duplicate key', {
      cause: Object.assign(new Error('socket hang up', { cause: { token: 'a-token' } }), {
        code: 'ECONNRESET',
        client: new Client(),
      }),
    }),
    {
      code: '23505',
      table: 'users',
      detail: 'Key (id)=(a-session-id) already exists.',
      where: 'JSON data, line 1: {"text": "a private text"}',
      client: new Client(),
      response: { body: 'a private answer' },
    },
  );

test('errors in any field are logged with known properties', () => {
  const { log, lines } = capture();
  log.error(failure());
  log.error({ err: failure() }, 'failed');
  log.child({ part: 'child' }).error({ error: failure() }, 'failed');
  log.error({ result: { reason: [failure()] } }, 'failed');
  log.error({ reason: new AggregateError([failure()], 'all failed') }, 'failed');
  assert.equal(lines.length, 5);
  for (const line of lines) {
    assert.match(
      line,
      /"message":"duplicate key".*"stack":"Error: duplicate key\\n.*"code":"23505"/,
    );
    assert.match(line, /"table":"users","cause":.*"message":"socket hang up".*"code":"ECONNRESET"/);
    assert.doesNotMatch(line, /a-secret-key|a-session-id|private|a-token/);
  }
});

test('class instances are logged by name', () => {
  const { log, lines } = capture();
  log.info({ client: new Client(), list: [new Client()], at: new Date(0), count: 3 }, 'state');
  assert.deepEqual(
    lines.map((line) => {
      const { client, list, at, count } = JSON.parse(line) as Record<string, unknown>;
      return { client, list, at, count };
    }),
    [{ client: '[Client]', list: ['[Client]'], at: '1970-01-01T00:00:00.000Z', count: 3 }],
  );
});

/** A logger, and its lines without the fields of every line. */
function captureFields() {
  const lines: unknown[] = [];
  const write = (line: string) => {
    const {
      level: _,
      time: __,
      service: ___,
      ...rest
    } = JSON.parse(line) as Record<string, unknown>;
    lines.push(rest);
  };
  return { log: createLogger({ level: 'info', service: 'test', destination: { write } }), lines };
}

test('lines of a task carry its fields', async () => {
  const { log, lines } = captureFields();
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
  const { log, lines } = captureFields();
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

test('shared work carries only its given fields', async () => {
  const { log, lines } = captureFields();
  await withLogFields({ a: 1 }, async () => {
    const known = getLogFields();
    await withIsolatedLogFields({ jobs: [known, { a: 2 }] }, async () => {
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

test('work that outlives its task does not carry its fields', async () => {
  const { log, lines } = captureFields();
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
