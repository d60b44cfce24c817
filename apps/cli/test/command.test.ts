import assert from 'node:assert/strict';
import { existsSync } from 'node:fs';
import { readFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { suite, test } from 'node:test';
import type { LegacyReport } from '@oselya/assistant';
import { PayloadSchema } from '@oselya/collector/payload';
import { formatJson } from '@oselya/inventory/text';
import { findUnusedUrl, type ScriptedResponse, startServer } from '@oselya/testing';
import fc from 'fast-check';
import { Value } from 'typebox/value';
import manifest from '../package.json' with { type: 'json' };
import { AssistantClient } from '../src/chat/assistant-client.ts';
import { parseSourceSlug } from '../src/command.ts';
import { describeReport } from '../src/commands/assign-legacy.ts';
import { formatResults } from '../src/search-results.ts';
import { showProgress } from '../src/progress.ts';
import { sanitizeLine } from '../src/terminal.ts';
import { oselya } from './support/oselya.ts';

/** Data folder that no command may create. */
const UNUSED = join(tmpdir(), `oselya-unused-${process.pid}`);

const commands =
  'dev assistant collector worker migrate assign-legacy keygen search chat backfill-embeddings reprocess ingest evaluate rates api-key'.split(
    ' ',
  );
test('--help of each command describes its use and requirements', async () => {
  for (const command of commands) {
    const { stdout } = await oselya([command, '--help']);
    assert.match(stdout, /^It needs .*\n.*\n.*docs\/configuration\.md/m, command);
  }
  for (const command of ['', ...commands, 'api-key create', 'api-key list', 'inventory']) {
    const { status, stdout } = await oselya([...command.split(' ').filter(Boolean), '--help']);
    assert.equal(status, 0, command);
    assert.match(stdout, /usage/i, command);
  }
});

const wrongUses: [commandLine: string, expected: RegExp][] = [
  ['api-key', /^oselya: a command is missing: see oselya api-key --help$/m],
  ['fly', /^oselya: unknown command 'fly': see oselya --help$/m],
  ['fly --help', /^oselya: unknown command 'fly': see oselya --help$/m],
  ['f\u001B[2J\nly', /unknown command 'f\[2J ly'/],
  ['keygem', /keygen/],
  ['start --help', /^oselya: unknown command 'start' \(Did you mean dev\?\): see oselya --help$/m],
  ['migrate --fast', /unknown option '--fast'/],
  ['keygen extra', /too many arguments/],
  ['assign-legacy', /missing required argument 'user-id': see oselya assign-legacy --help/],
  ['reprocess --dry-run --yes', /choose one: see oselya reprocess --help/],
  ['reprocess', /there is no terminal to ask at: add --yes, or --dry-run/],
  ['reprocess --limit 0', /It must be a positive integer/],
  ['reprocess --dry-run --source Doshka', /source slug must have at most 64 lower-case letters/],
  ['assign-legacy ', /It must not be empty: see oselya assign-legacy --help/],
  ['api-key create', /missing required argument 'name'/],
  ['api-key create ', /It must not be empty/],
  ['api-key create x --scope all', /Allowed choices are ingest, search, on_behalf, admin/],
  ['api-key create x --source NoSlug', /source slug must have/],
  ['search', /missing required argument 'words': see oselya search --help/],
  ['search ', /It must not be empty/],
  ['search x --limit 0', /It must be an integer from 1 to 100/],
  ['chat', /the message is empty: see oselya chat --help/],
  [`chat ${'x'.repeat(16_001)}`, /the message is longer than 16000 characters/],
  ['chat x --url https://a.example/path', /--url must be an origin/],
  ['chat x --session s --profile p', /omit --profile/],
  ['chat x --sign-out', /--sign-out takes no message/],
  ['ingest a.csv', /required option '--source <slug>' not specified: see oselya ingest --help/],
  ['ingest a.csv --source NoSlug', /source slug must have/],
  ['ingest a.txt --source a', /add --format json, jsonl or csv: see oselya ingest/],
  ['ingest - --source a', /the format cannot be detected from standard input/],
  ['ingest - --format csv --source a --rejected', /add a path to --rejected/],
  ['ingest a.csv --source a --map price', /It must have the form FIELD=COLUMN/],
  ['ingest a.csv --source a --map x=a', /no field x: it has external_id, url/],
  ['ingest a.csv --source a --map price=a --map price=b', /The field price is mapped twice/],
  ['ingest a.csv --source a --encoding klingon', /It must be the name of an encoding/],
  ['ingest a.csv --source a --load no/name', /It must have 1 to 64 letters/],
  ['ingest a.csv --source a --load x --again', /cannot be used with option/],
  ['ingest a.csv --source a --delimiter ;', /Allowed choices are comma, semicolon/],
  ['evaluate --limit 0', /It must be a positive integer/],
  ['rates ', /It must not be empty: see oselya rates --help/],
  ['inventory fly', /fly/],
  ['inventory validate -x.json', /-x/],
  ['inventory validate -- -x.json', /cannot read -x\.json/],
];
test('a usage error ends with status 2 and one line', async () => {
  const cases: [args: string[], expected: RegExp][] = [
    [[], /^oselya: a command is missing: see oselya --help$/m],
    ...wrongUses.map(([line, expected]): [string[], RegExp] => [line.split(' '), expected]),
  ];
  for (const [args, expected] of cases) {
    const { status, stdout, stderr } = await oselya(args);
    assert.deepEqual([status, stdout], [2, ''], args.join(' '));
    assert.match(stderr, expected);
    assert.equal(stderr.trim().split('\n').length, 1, stderr);
  }
});

test('--version prints the version of the package', async () => {
  for (const args of [['--version'], ['-V'], ['inventory', '--version']]) {
    const { status, stdout, stderr } = await oselya(args);
    assert.deepEqual([status, stdout, stderr], [0, `${manifest.version}\n`, '']);
  }
});

test('keygen prints a new key of 32 bytes each time', async () => {
  const firstRun = await oselya(['keygen']);
  assert.match(firstRun.stdout, /^[A-Za-z0-9_-]{43}\n$/);
  assert.notEqual((await oselya(['keygen'])).stdout, firstRun.stdout);
});

const badVariables: [commandLine: string, env: Record<string, string>, expectedNames: string][] = [
  [
    'collector',
    { LOG_LEVEL: 'l0ud', COLLECTOR_PORT: 'e1ghty', MODEL_MODE: 'mag1c', COLLECTOR_HOST: '0.0.0.0' },
    'LOG_LEVEL COLLECTOR_PORT MODEL_MODE COLLECTOR_AUTH',
  ],
  [
    'worker',
    { COLLECTOR_WORKERS: 'm4ny', MODEL_MODE: 'openai' },
    'COLLECTOR_WORKERS MODEL_BASE_URL MODEL_CHAT MODEL_EMBEDDING',
  ],
  [
    'assistant',
    { LOG_LEVEL: 'l0ud', SVC_AUTH_COOKIE_SAMESITE: 'none' },
    'LOG_LEVEL SVC_AUTH_ENCRYPTION_KEY SVC_AUTH_COOKIE_SAMESITE',
  ],
  [
    'migrate',
    { DATABASE_URL: 'mysql://us3r@x', EMBEDDING_DIMENSIONS: 'w1de' },
    'DATABASE_URL EMBEDDING_DIMENSIONS',
  ],
  [
    'search x',
    { COLLECTOR_URL: 'h3re', COLLECTOR_API_KEY: 'a key of m1ne' },
    'COLLECTOR_URL COLLECTOR_API_KEY',
  ],
  ['chat x', { BASE_URL: 'h3re', ASSISTANT_PORT: '0' }, 'ASSISTANT_PORT BASE_URL'],
  [
    'dev',
    {
      LOG_LEVEL: 'l0ud',
      ASSISTANT_PORT: 'e1ghty',
      DEV_IDP_PORT: '99999',
      DEV_IDP_ACCESS_TOKEN_SECONDS: '0',
      DEV_IDP_REFRESH_TOKEN_SECONDS: 'f0rever',
      COLLECTOR_PORT: 'n1nety',
      IDP_TIMEOUT_MS: 's00n',
      SVC_AUTH_COOKIE_SAMESITE: 'none',
      MODEL_MODE: 'openai',
      MODEL_CHAT: 'llama',
      MODEL_EMBEDDING: 'llama',
      COLLECTOR_HOST: '0.0.0.0',
    },
    'LOG_LEVEL ASSISTANT_PORT COLLECTOR_PORT DEV_IDP_PORT DEV_IDP_ACCESS_TOKEN_SECONDS DEV_IDP_REFRESH_TOKEN_SECONDS IDP_TIMEOUT_MS SVC_AUTH_COOKIE_SAMESITE MODEL_BASE_URL COLLECTOR_AUTH',
  ],
];
test('every bad variable is named once, without its value', async () => {
  for (const [commandLine, env, expectedNames] of badVariables) {
    const { status, stderr } = await oselya(commandLine.split(' '), { DATA_DIR: UNUSED, ...env });
    assert.equal(status, 1);
    const lines = stderr.trim().split('\n');
    assert.equal(lines.shift(), 'oselya: Configuration value error:');
    const variables = lines.map((line) => line.trim().split(' ')[0]);
    assert.equal(variables.join(' '), expectedNames);
    for (const value of Object.values(env)) {
      // Other values may also occur as ordinary words.
      if (/[a-z]\d|\d[a-z]/.test(value)) assert.ok(!stderr.includes(value), stderr);
    }
    assert.equal(existsSync(UNUSED), false);
  }
});

test('an unwritable file of rejected records is reported in one line', async () => {
  const args = ['ingest', '-', '--format', 'jsonl', '--source', 'a', '--dry-run', '--rejected'];
  const reasons = [
    [join(UNUSED, 'a.jsonl'), 'there is no such file or folder'],
    ...(existsSync('/dev/full') ? [['/dev/full', 'the disk is full']] : []),
  ] as [path: string, reason: string][];
  for (const [path, reason] of reasons) {
    const { status, stderr } = await oselya([...args, path], {}, '{"a":1}\n');
    assert.equal(status, 1);
    assert.equal(stderr, `oselya: ${path} cannot be written: ${reason}\n`);
  }
});

test('a source slug follows the payload schema', () => {
  const schema = PayloadSchema.properties.source_slug;
  for (const value of ['a', '9', 'lviv-doshka', 'a_b', 'z'.repeat(64)]) {
    assert.ok(Value.Check(schema, value), value);
    assert.equal(parseSourceSlug(value), value);
  }
  for (const value of ['', '-a', '_a', 'Doshka', 'a b', 'дошка', 'a\n', 'z'.repeat(65)]) {
    assert.ok(!Value.Check(schema, value), value);
    assert.throws(
      () => parseSourceSlug(value),
      /A source slug must have at most 64 lower-case letters/,
      value,
    );
  }
});

suite('a search', async () => {
  let response: ScriptedResponse;
  const { url, requests } = await startServer(() => response);

  async function search(answer: ScriptedResponse, env: Record<string, string> = {}) {
    response = answer;
    const args = ['search', '--mode', 'meaning', 'дім', '--limit', '3', '--json'];
    return oselya(args, { COLLECTOR_URL: url, ...env });
  }

  test('a search goes by words and meaning, or by one of them', async () => {
    response = { body: { items: [], total: { value: 0, relation: 'eq' } } };
    for (const [options, kind] of [
      [[], 'hybrid'],
      [['--mode', 'words'], 'fulltext'],
      [['--mode', 'meaning'], 'similar'],
    ] as const) {
      const { status } = await oselya(['search', 'дім', ...options], { COLLECTOR_URL: url });
      assert.deepEqual([status, requests.at(-1)?.path], [0, `/api/v1/search/${kind}`]);
    }
    requests.length = 0;
  });

  test('each filter of the API is an option', async () => {
    const document = JSON.parse(
      await readFile(new URL('../../../docs/openapi/collector.json', import.meta.url), 'utf8'),
    ) as { components: { schemas: Record<string, { properties: object }> } };
    const { properties = {} } = document.components.schemas['FulltextSearchRequest'] ?? {};
    const { stdout: help } = await oselya(['search', '--help']);
    for (const name of Object.keys(properties)) {
      const isFilter = !['query', 'cursor', 'highlight'].includes(name);
      assert.equal(help.includes(`--${name.replaceAll('_', '-')} `), isFilter, name);
    }
    response = { body: { items: [] } };
    const { status, stderr } = await oselya(
      'search дім --city Львів --city Київ --price-per-m2-max 900.5 --floor-min -1 --not-first-floor --no-has-images --bbox 23.8,49.7,24.2,49.95 --near 49.84,24.03,500'.split(
        ' ',
      ),
      { COLLECTOR_URL: url },
    );
    assert.equal(status, 0, stderr);
    assert.deepEqual(requests.at(-1)?.body, {
      query: 'дім',
      limit: 10,
      city: ['Львів', 'Київ'],
      price_per_m2_max: 900.5,
      floor_min: -1,
      not_first_floor: true,
      has_images: false,
      bbox: [23.8, 49.7, 24.2, 49.95],
      near: { latitude: 49.84, longitude: 24.03, radius_m: 500 },
    });
    requests.length = 0;
    for (const option of ['--price-min=x', '--near=1,2', '--bbox=1,,2', '--mode=exact']) {
      assert.equal((await oselya(['search', 'дім', option])).status, 2, option);
    }
    assert.equal(requests.length, 0);
  });

  test('options become a query, and --json prints the answer', async () => {
    const body = { items: [], took_ms: 1 };
    const { status, stdout } = await search({ body });
    assert.equal(status, 0);
    assert.deepEqual(JSON.parse(stdout), body);
    const [request] = requests;
    assert.equal(`${request?.method} ${request?.path}`, 'POST /api/v1/search/similar');
    assert.equal(request?.headers['content-type'], 'application/json');
    assert.equal(request.headers.authorization, undefined);
    assert.deepEqual(request.body, { query: 'дім', limit: 3 });

    await search({ body }, { COLLECTOR_URL: `${url}/collector/`, COLLECTOR_API_KEY: 'oselya_1_x' });
    assert.equal(requests.at(-1)?.path, '/collector/api/v1/search/similar');
    assert.equal(requests.at(-1)?.headers.authorization, 'Bearer oselya_1_x');
  });

  const rejections: [response: ScriptedResponse, expected: RegExp][] = [
    [
      { status: 429, body: { title: 'Too many requests', detail: 'Wait\n12 s.\u001B[2J' } },
      /^oselya: the collector rejected the search \(429\): Wait 12 s\.\[2J\n$/,
    ],
    [
      { status: 422, body: { title: 'No', errors: [{ path: 'query', message: 'is too long' }] } },
      /\(422\): query is too long\n$/,
    ],
    [{ status: 401, body: { title: 'API key needed' } }, /: API key needed: set COLLECTOR_API_KEY/],
    [{ status: 502, body: '<html>Bad gateway' }, /\(502\) without a reason: set COLLECTOR_URL/],
    ...['<html>Welcome', '{}', '{"items": [{"listing": {}}]}', ''].map(
      (body): [ScriptedResponse, RegExp] => [{ body }, /is not a collector: set COLLECTOR_URL/],
    ),
  ];
  test('a rejected search and another server are one line each', async () => {
    for (const [answer, expected] of rejections) {
      const { status, stderr } = await search(answer);
      assert.equal(status, 1);
      assert.match(stderr, expected);
      assert.equal(stderr.trim().split('\n').length, 1);
    }
    const { stderr } = await search({}, { COLLECTOR_URL: await findUnusedUrl() });
    assert.match(stderr, /cannot be reached \(ECONNREFUSED\): start it with npm start, or set/);
  });

  const listing = {
    listing_id: 7,
    title: 'Затишна квартира біля парку',
    summary: 'Двокімнатна квартира.',
    description: 'Продам квартиру.',
    price: 62000,
    currency: 'USD',
    city: 'Львів',
    rooms: 2,
    area_total: 54.5,
  };

  test('a listing is two lines, and a last line has the count', async () => {
    const exactResults = await formatResults({
      items: [{ listing, rank: 0.25 }],
      total: { value: 2, relation: 'eq' },
    });
    assert.match(
      exactResults,
      /^#7 {4}Затишна квартира біля парку\n {6}62\s000\sUSD · Львів · 2\srooms · 54,5\sm² · rank 0\.250\n2 found, 1 shown$/,
    );
    const limitedResults = await formatResults({
      items: [],
      total: { value: 0, relation: 'eq' },
      understood: {
        price_max: 15_000,
        currency: 'UAH',
        near: { latitude: 49.8, longitude: 24, radius_m: 40_000 },
      },
    });
    assert.equal(
      limitedResults,
      'understood: price max 15000, currency UAH, near 49.8 24 within 40 km\n0 found',
    );
    const similarResults = await formatResults({ items: [{ listing, distance: 0.5 }] });
    assert.match(similarResults, / · 54,5\sm² · distance 0\.500\nthe 1 nearest$/);
  });

  test('a summary or description replaces a missing title', async () => {
    const cases: [texts: object, expected: string][] = [
      [{}, '#7    Двокімнатна квартира.'],
      [{ summary: null, description: 'дім🏡'.repeat(10_000) }, `#7    ${'дім🏡'.repeat(22)}д…`],
    ];
    for (const [texts, expected] of cases) {
      const text = await formatResults({
        items: [{ listing: { ...listing, title: null, ...texts } }],
      });
      assert.equal(text.split('\n')[0], expected);
    }
  });

  test('an empty result and an incomplete ranking are described', async () => {
    const cases: [results: Parameters<typeof formatResults>[0], lastLine: string][] = [
      [{ items: [], total: { value: 0, relation: 'eq' } }, '0 found'],
      [{ items: [] }, '0 found'],
      [
        { items: [{ listing }], total: { value: 5000, relation: 'gte' } },
        'at least 5000 found, 1 shown',
      ],
    ];
    for (const [results, lastLine] of cases) {
      assert.equal((await formatResults(results)).split('\n').at(-1), lastLine);
    }
  });

  test('listings are printed without control characters', async () => {
    const hostileText = 'a\u001B]0;owned\u0007\nb';
    const hostileTexts = { title: hostileText, city: hostileText, currency: hostileText };
    const text = await formatResults({ items: [{ listing: { ...listing, ...hostileTexts } }] });
    assert.equal(text.split('\n').length, 3);
    assert.doesNotMatch(text.replaceAll('\n', ''), /\p{Cc}/u);
  });
});

test('a legacy report shortens long lists, and prints no control characters', () => {
  const keptFacts = Array.from({ length: 23 }, (_, index) => ({
    category: 'c',
    key: `k-${index}`,
  }));
  const report: LegacyReport = {
    sessions: 0,
    facts: {
      assigned: 1,
      replaced: [{ category: 'a\u001B[2J\nb', key: 'c\u202Ed' }],
      kept: keptFacts,
      duplicates: 2,
    },
    summaries: { outcome: 'merged', legacy: 2 },
  };
  const lines = describeReport(report, { userId: 'u\u202E', dryRun: true });
  assert.equal(lines[0], 'This would become the data of "u". Nothing was changed.');
  assert.ok(lines.includes('    a[2J b / cd'));
  assert.equal(lines.filter((line) => line.startsWith('    c / k-')).length, 20);
  assert.ok(lines.includes('    … and 3 more'));
  assert.ok(lines.includes('  deleted as duplicates: 2'));
  assert.equal(lines.at(-1), "summary: merged with the user's own (2 as one)");
});

test('a cookie with an invalid name or value is rejected', async () => {
  const session_id = 'a'.repeat(43);
  let body: object = {};
  const { url } = await startServer(() => ({ body }));
  const redeem = (token: object) => {
    body = token;
    return new AssistantClient(url, () => undefined).redeemCode('code', 'verifier');
  };
  const validToken = { cookie_name: '__Host-oselya', session_id };
  assert.deepEqual(await redeem(validToken), { name: '__Host-oselya', value: session_id });
  for (const invalid of [
    { cookie_name: 'a=b; c' },
    { cookie_name: 'a\r\nx: y' },
    { cookie_name: '' },
    { cookie_name: 'a'.repeat(65) },
    { session_id: `${session_id}; b=c` },
  ]) {
    const message = /returned an invalid cookie.*set BASE_URL/;
    await assert.rejects(redeem({ ...validToken, ...invalid }), message);
  }
});

suite('terminal', () => {
  /** Returns whether text has a line separator, a bidirectional control, or a control character except line feeds. */
  const hasUnsafeCharacter = (text: string) =>
    /[\p{Cc}\u200E\u200F\u2028-\u202E\u2066-\u2069]/u.test(text.replaceAll('\n', ''));

  const texts = fc.string({
    unit: fc.oneof(
      fc.string({ unit: 'binary', minLength: 1, maxLength: 1 }),
      fc.constantFrom('\u001B', '\n', '\u009B', '\u2028', '\u202E', '\uFEFF', '\uD800', 'ї', '🏡'),
    ),
  });

  test('control characters are removed from a line', () => {
    assert.equal(
      sanitizeLine('\u001B[2JДім\r\n у\u202E Львові\u009B1m\u0000 '),
      '[2JДім у Львові1m',
    );
    fc.assert(
      fc.property(texts, (text) => {
        assert.ok(!hasUnsafeCharacter(sanitizeLine(text)));
        assert.ok(!sanitizeLine(text).includes('\n'));
      }),
    );
  });

  test('printed JSON escapes control characters', () => {
    assert.equal(formatJson({ a: '\u009B' }, 2), '{\n  "a": "\\u009b"\n}');
    fc.assert(
      fc.property(texts, (text) => {
        const json = formatJson({ text });
        assert.ok(!hasUnsafeCharacter(json));
        assert.deepEqual(JSON.parse(json), { text });
      }),
    );
  });
});

suite('progress', () => {
  /** Creates an output stream, and a function that returns the output since its last call. */
  function createOutput(isTTY: boolean) {
    const chunks: string[] = [];
    const stream: Partial<NodeJS.WriteStream> = {
      isTTY,
      columns: 200,
      write: (chunk: Uint8Array | string) => chunks.push(String(chunk)) > 0,
    };
    return { stream: stream as NodeJS.WriteStream, takeOutput: () => chunks.splice(0).join('') };
  }

  const HIDE_CURSOR = '\u001B[?25l';
  const SHOW_CURSOR = '\u001B[?25h';
  const CLEAR_LINE = '\u001B[2K';

  test('a terminal shows a progress bar and its last count', () => {
    const { stream, takeOutput } = createOutput(true);
    const progress = showProgress({ unit: 'listings', total: 4 }, stream);
    const firstOutput = takeOutput();
    assert.ok(firstOutput.includes(HIDE_CURSOR));
    assert.match(firstOutput, /░{30} 0\/4 listings/);

    progress.update(1, '1 would change');
    progress.clear();
    const clearOutput = takeOutput();
    assert.ok(clearOutput.includes(CLEAR_LINE), 'a line of output gets an empty line');
    assert.ok(!clearOutput.includes('\n'));

    progress.update(3, '2 would change');
    progress.stop();
    const lastOutput = takeOutput();
    assert.match(lastOutput, /█{22,23}░{7,8} 3\/4 listings 2 would change \| .* left/);
    assert.ok(lastOutput.includes(SHOW_CURSOR));
    assert.ok(lastOutput.endsWith('\n'), 'the next line of output stands by itself');
  });

  test('without a terminal each tenth and the end are a line', () => {
    const { stream, takeOutput } = createOutput(false);
    const progress = showProgress({ unit: 'listings', total: 25 }, stream);
    for (let doneCount = 0; doneCount <= 25; doneCount += 1)
      progress.update(doneCount, doneCount === 25 ? '9 embedded' : '');
    progress.update(25, '9 embedded');
    progress.clear();
    progress.stop();
    const lines = [3, 6, 9, 12, 15, 18, 21, 24].map((doneCount) => `${doneCount} of 25 listings`);
    assert.equal(takeOutput(), [...lines, '25 of 25 listings: 9 embedded', ''].join('\n'));
  });
});
