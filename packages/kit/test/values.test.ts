import assert from 'node:assert/strict';
import { test } from 'node:test';
import { setImmediate as waitForImmediate } from 'node:timers/promises';
import fc from 'fast-check';
import Fastify from 'fastify';
import { Type } from 'typebox';
import { MAX_RETRY_AFTER_MS, parseRetryAfter } from '../src/http/retry-after.ts';
import {
  commonConfig,
  ConfigError,
  createLogger,
  flag,
  formatListingId,
  formatNumber,
  formatPrice,
  getClientNetwork,
  getLogFields,
  integer,
  list,
  loadConfig,
  loadConfigs,
  paginate,
  text,
  withIsolatedLogFields,
  withLogFields,
} from '../src/index.ts';

test('numbers, prices and ids have one format', () => {
  const numbers = [9500, 1_234_567.125, 52.5].map(formatNumber);
  assert.deepEqual(numbers, ['9\u00A0500', '1\u00A0234\u00A0567,13', '52,5']);
  assert.equal(formatPrice(15_000, 'UAH'), '15\u00A0000\u00A0UAH');
  for (const noCurrency of [null, undefined, ''])
    assert.equal(formatPrice(15_000, noCurrency), '15\u00A0000');
  assert.equal(formatListingId(22), '#22');
});

test('clients are counted by IPv4 address or IPv6 network', () => {
  for (const [address, network] of [
    ['192.0.2.1', '192.0.2.1'],
    ['::ffff:192.0.2.1', '192.0.2.1'],
    ['0:0:0:0:0:FFFF:c000:201', '192.0.2.1'],
    ['2001:DB8:1:2:3:4:5:6', '2001:db8:1:2::/64'],
    ['2001:db8:1:3::1', '2001:db8:1:3::/64'],
    ['2001:db8::1', '2001:db8::/64'],
    ['::1', '::/64'],
    ['fe80::1%eth0', 'fe80::/64'],
    ['unknown', 'unknown'],
    ['192.0.2.1:5678', '192.0.2.1:5678'],
    ['', ''],
  ] as const) {
    assert.equal(getClientNetwork(address), network, address);
  }
});

const NOW = Date.parse('2026-11-26T10:00:00Z');

test('Retry-After is a number of seconds or a date in UTC, within the limit of timers', (context) => {
  const previousZone = process.env['TZ'] ?? 'UTC';
  context.after(() => (process.env['TZ'] = previousZone));
  process.env['TZ'] = 'America/New_York';
  assert.ok(MAX_RETRY_AFTER_MS < 2 ** 31);
  for (const [header, seconds] of [
    ['57', 57],
    [' 0 ', 0],
    ['1.5', 1.5],
    ['Thu, 26 Nov 2026 10:01:30 GMT', 90],
    ['Thursday, 26-Nov-26 10:01:30 GMT', 90],
    ['Tue Dec  1 10:00:00 2026', 5 * 24 * 3600],
    ['Thu, 26 Nov 2026 09:00:00 GMT', 0],
    ['9'.repeat(400), MAX_RETRY_AFTER_MS / 1000],
    ['Sat, 21 Nov 2099 10:00:00 GMT', MAX_RETRY_AFTER_MS / 1000],
  ] as const) {
    assert.equal(parseRetryAfter(header, NOW), seconds * 1000, header);
  }
  const invalidValues = ['', ...'-1,+5,soon,1e3,5 s,1.,NaN,0x10,2026-11-21'.split(','), '5, 6'];
  const invalidDates = ['Sat, soon', 'Thu, 26 Nov 2026 10:01:30', 'Sat, 26 Xyz 2026 10:01:30 GMT'];
  for (const header of [...invalidValues, ...invalidDates, null, undefined]) {
    assert.equal(parseRetryAfter(header, NOW), undefined, String(header));
  }
});

test('the next page keeps any query with a new cursor', async () => {
  const app = Fastify({ logger: false });
  app.get<{ Querystring: { limit: number } }>('/rows', (request, reply) =>
    paginate([1, 2, 3], { limit: 2, getCursor: (row) => `after ${row}`, request, reply }),
  );
  const queryPart = fc.string({ unit: 'grapheme' });
  await fc.assert(
    fc.asyncProperty(fc.array(fc.tuple(queryPart, queryPart)), async (queryEntries) => {
      const otherEntries = queryEntries.filter(([name]) => name !== 'limit' && name !== 'cursor');
      const query = new URLSearchParams([...otherEntries, ['cursor', 'x']]);
      // A query may contain unescaped question marks.
      const url = `/rows?${query.toString().replaceAll('%3F', '?')}`;
      const { link } = (await app.inject(url)).headers;
      const [, address] = /^<\/rows\?([^>]*)>; rel="next"$/.exec(String(link)) ?? [];
      const parameters = [...new URLSearchParams(address)].filter(([name]) => name !== 'cursor');
      assert.deepEqual(parameters, [...new URLSearchParams(otherEntries), ['limit', '2']]);
      assert.equal(new URLSearchParams(address).get('cursor'), 'after 2');
    }),
  );
});

const schema = Type.Object({
  ...commonConfig,
  PORT: integer({ default: 8000, min: 0, max: 65_535 }),
  SECURE: flag(false),
  NAME: text('default'),
  KEYS: list(),
  NEEDED: Type.String({ minLength: 3, description: 'must be set to a name of at least 3 letters' }),
});

test('variables are read by type, and unset and empty ones get their defaults', () => {
  const commonDefaults = { DATA_DIR: 'var', LOG_LEVEL: 'info', METRICS_TOKEN: '', PORT: 8000 };
  const defaultConfig = {
    ...commonDefaults,
    SECURE: false,
    NAME: 'default',
    KEYS: [],
    NEEDED: 'abc',
  };
  for (const [env, changedValues] of [
    [{ PORT: '', SECURE: ' ' }, {}],
    [
      { PORT: '9001', KEYS: 'a, b,,c' },
      { PORT: 9001, KEYS: ['a', 'b', 'c'] },
    ],
    [
      { SECURE: 'Yes', LOG_LEVEL: 'WARN' },
      { SECURE: true, LOG_LEVEL: 'warn' },
    ],
    [{ SECURE: 'FALSE', NEEDED: 'Abc' }, { NEEDED: 'Abc' }],
    [{ DATABASE_URL: 'postgresql://localhost/x' }, { DATABASE_URL: 'postgresql://localhost/x' }],
  ] as const) {
    assert.deepEqual(loadConfig(schema, { NEEDED: 'abc', ...env }), {
      ...defaultConfig,
      ...changedValues,
    });
  }
});

function getProblems(load: () => unknown): ConfigError {
  try {
    load();
  } catch (error) {
    if (error instanceof ConfigError) return error;
  }
  return assert.fail('the configuration is valid');
}

test('all bad values are reported together, without their values', () => {
  const invalidEnv = {
    PORT: '70000s3cret',
    SECURE: 'm4ybe',
    LOG_LEVEL: 'l0ud',
    DATABASE_URL: 'mysql://root:hunter2@x',
  };
  const { problems, message } = getProblems(() => loadConfig(schema, invalidEnv));
  assert.deepEqual([...problems.keys()], ['DATABASE_URL', 'LOG_LEVEL', 'PORT', 'SECURE', 'NEEDED']);
  for (const value of Object.values(invalidEnv)) assert.ok(!message.includes(value));
  for (const rule of [
    /PORT must be a whole number, 0 to 65535/,
    /LOG_LEVEL must be one of: trace, /,
    /DATABASE_URL must begin with postgres:\/\/ or postgresql:\/\//,
    /NEEDED is not set: it must be set to a name/,
  ]) {
    assert.match(message, rule);
  }
});

test('rules over several variables, and configurations read together, give one error', () => {
  const boundsSchema = Type.Object({
    LOW: integer({ default: 1, max: 100 }),
    HIGH: integer({ default: 9 }),
  });
  const load = (env: Record<string, string>) =>
    loadConfig(boundsSchema, env, [
      ({ LOW = 0, HIGH = 0 }) => (LOW > HIGH ? [['HIGH', 'must not be below LOW']] : []),
    ]);
  assert.deepEqual(load({ LOW: '2' }), { LOW: 2, HIGH: 9 });
  const { problems } = getProblems(() => load({ LOW: '10', HIGH: '5' }));
  assert.deepEqual([...problems], [['HIGH', 'must not be below LOW']]);
  const invalidEnv = { LOW: '1000', PORT: 'x', NEEDED: 'abc', LOG_LEVEL: 'loud' };
  const { problems: allProblems } = getProblems(() =>
    loadConfigs(
      () => load(invalidEnv),
      () => loadConfig(schema, invalidEnv),
      () => loadConfig(Type.Object(commonConfig), invalidEnv),
    ),
  );
  assert.deepEqual([...allProblems.keys()], ['LOW', 'LOG_LEVEL', 'PORT']);
  const configs = loadConfigs(
    () => load({}),
    () => loadConfig(schema, { NEEDED: 'abc' }),
  );
  assert.equal(configs[0].HIGH + configs[1].PORT, 8009);
});

class Client {
  readonly secretKey = 'a-secret-key';
}

/** Creates an error with confidential properties, such as a database driver or HTTP client throws. */
function createFailure(): Error {
  const clientError = Object.assign(new Error('socket hang up', { cause: { token: 'a-token' } }), {
    code: 'ECONNRESET',
    client: new Client(),
  });
  return Object.assign(new Error('duplicate key', { cause: clientError }), {
    code: '23505',
    table: 'users',
    detail: 'Key (id)=(a-session-id) already exists.',
    where: 'JSON data, line 1: {"text": "a private text"}',
    client: new Client(),
    response: { body: 'a private answer' },
  });
}

/** Creates a logger that collects its lines, without the common fields. */
function collectLines() {
  const lines: Record<string, unknown>[] = [];
  const write = (line: string) => {
    const { level: _, time: __, service: ___, ...fields } = JSON.parse(line);
    lines.push(fields);
  };
  return { log: createLogger({ level: 'info', service: 'test', destination: { write } }), lines };
}

test('errors in any field are logged with known properties, and class instances by name', () => {
  const { log, lines } = collectLines();
  log.error(createFailure());
  log.error({ err: createFailure() }, 'failed');
  log.child({ part: 'child' }).error({ error: createFailure() }, 'failed');
  log.error({ result: { reason: [createFailure()] } }, 'failed');
  log.error({ reason: new AggregateError([createFailure()], 'all failed') }, 'failed');
  assert.equal(lines.length, 5);
  for (const line of lines.map((fields) => JSON.stringify(fields))) {
    assert.match(
      line,
      /"message":"duplicate key".*"stack":"Error: duplicate key\\n.*"code":"23505"/,
    );
    assert.match(line, /"table":"users","cause":.*"message":"socket hang up".*"code":"ECONNRESET"/);
    assert.doesNotMatch(line, /a-secret-key|a-session-id|private|a-token/);
  }
  log.info({ client: new Client(), list: [new Client()], at: new Date(0), count: 3 }, 'state');
  const at = '1970-01-01T00:00:00.000Z';
  const expected = { client: '[Client]', list: ['[Client]'], at, count: 3, msg: 'state' };
  assert.deepEqual(lines.at(-1), expected);
});

test('lines of a task and its inner tasks carry its fields, and lines after its end do not', async () => {
  const { log, lines } = collectLines();
  const laterTrigger = Promise.withResolvers<void>();
  let laterLogging: Promise<void> | undefined;
  const runTask = (id: number) =>
    withLogFields({ id, b: 1 }, async () => {
      log.info('begins');
      await waitForImmediate();
      await withLogFields({ b: 2 }, async () => {
        log.child({ part: 'child' }).info('inner');
        log.info({ b: 3 }, 'own');
        return Promise.resolve();
      });
      laterLogging = laterTrigger.promise.then(() => log.info('much later'));
      return Promise.reject(new Error('broken'));
    });
  await Promise.allSettled([runTask(1), runTask(2)]);
  laterTrigger.resolve();
  await laterLogging;
  assert.deepEqual(lines, [
    { id: 1, b: 1, msg: 'begins' },
    { id: 2, b: 1, msg: 'begins' },
    { part: 'child', id: 1, b: 2, msg: 'inner' },
    { id: 1, b: 3, msg: 'own' },
    { part: 'child', id: 2, b: 2, msg: 'inner' },
    { id: 2, b: 3, msg: 'own' },
    { msg: 'much later' },
    { msg: 'much later' },
  ]);
});

test('shared work carries only its given fields', async () => {
  const { log, lines } = collectLines();
  await withLogFields({ a: 1 }, async () => {
    const outerFields = getLogFields();
    await withIsolatedLogFields({ jobs: [outerFields, { a: 2 }] }, async () => {
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
