import assert from 'node:assert/strict';
import { test } from 'node:test';
import { createLogger } from '../src/index.ts';

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

test('an error in any field is logged with the fields that are known', () => {
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

test('an instance of a class is logged by its name, and a date as ever', () => {
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

test('what has no end in an error or a field is cut off', () => {
  const { log, lines } = capture();
  const circular: Record<string, unknown> = { message: 'x' };
  circular['self'] = circular;
  const error = new Error('m'.repeat(1_000_000));
  error.cause = error;
  log.error({ err: error, circular }, 'failed');
  assert.ok((lines[0] ?? '').length < 200_000);
});
