import assert from 'node:assert/strict';
import { createReadStream } from 'node:fs';
import { suite, test } from 'node:test';
import { setImmediate } from 'node:timers/promises';
import { type ScriptedResponse, startServer } from '@oselya/testing';
import { checkPayload } from '@oselya/collector/payload';
import fc from 'fast-check';
import { detectDelimiter } from '../src/ingest/csv.ts';
import { createPayloadSender, type Delivery } from '../src/ingest/deliver.ts';
import { loadRecords } from '../src/ingest/load.ts';
import { convertValue, createPayloadConverter, PAYLOAD_FIELDS } from '../src/ingest/payload.ts';
import type { Row } from '../src/ingest/row.ts';
import { openRows } from '../src/ingest/rows.ts';
import { oselya } from './support/oselya.ts';

const MEBIBYTE = 1024 * 1024;

const CSV = ['--format', 'csv'];
const JSON_LINES = ['--format', 'jsonl'];
const JSON_ARRAY = ['--format', 'json'];

const payloads: Record<string, unknown>[] = [];
const collector = await startServer(({ body }) => {
  payloads.push(Object(body));
  return { status: 202, body: { raw_id: payloads.length, status: 'pending' } };
});

function toChunks(content: string | Uint8Array, size: number): Uint8Array[] {
  const bytes = Buffer.from(content);
  const count = Math.ceil(bytes.length / size);
  return Array.from({ length: count }, (_, index) =>
    bytes.subarray(index * size, (index + 1) * size),
  );
}

/** Sends a file on standard input, and returns the output of the command and the sent payloads. */
async function ingest(
  content: string | Uint8Array,
  args: readonly string[] = JSON_LINES,
  chunkSize = 7,
) {
  payloads.length = 0;
  const result = await oselya(
    ['ingest', '-', '--source', 'doshka', ...args],
    { COLLECTOR_URL: collector.url },
    toChunks(content, chunkSize),
  );
  return { ...result, payloads: payloads.map(({ source_slug: _source, ...payload }) => payload) };
}

suite('reading', () => {
  const RECORD = '{"external_id":"1","description":"Продам гараж у Луцьку, 18 кв. м"}\n';
  const PAYLOAD: unknown = JSON.parse(RECORD);
  const UTF16 = Buffer.from(`\uFEFF${RECORD}`, 'utf16le');
  // 'external_id,description' and '1,Здам' in Windows-1251.
  const WINDOWS_1251 = Buffer.concat([
    Buffer.from('external_id,description\n1,'),
    Buffer.from('c7e4e0ec0a', 'hex'),
  ]);

  const files: [title: string, string | Uint8Array, args: string[], payloads: unknown[]][] = [
    ['a byte order mark', `\uFEFF${RECORD}`, JSON_LINES, [PAYLOAD]],
    ['UTF-16', UTF16, [...JSON_LINES, '--encoding', 'utf-16le'], [PAYLOAD]],
    [
      'big-endian UTF-16',
      Buffer.from(UTF16).swap16(),
      [...JSON_LINES, '--encoding', 'utf-16be'],
      [PAYLOAD],
    ],
    [
      'Windows-1251',
      WINDOWS_1251,
      [...CSV, '--encoding', 'windows-1251'],
      [{ external_id: '1', description: 'Здам' }],
    ],
    [
      'quoted delimiters, quotes and line ends of CSV',
      'external_id, description \r\n1,"two, ""rooms""\nnear the park"\r\n\r\n2,12" window\r\n',
      CSV,
      [
        { external_id: '1', description: 'two, "rooms"\nnear the park' },
        { external_id: '2', description: '12" window' },
      ],
    ],
    [
      'unnamed columns and columns of any name',
      'external_id,description,,__proto__\n1,a,2,3',
      CSV,
      [
        {
          external_id: '1',
          description: 'a',
          attributes: { column_3: '2', ['__proto__']: '3' },
        },
      ],
    ],
    [
      'a named delimiter',
      'external_id;x,description\n1;2,a\n',
      [...CSV, '--delimiter', 'comma', '--map', 'external_id=external_id;x'],
      [{ external_id: '1;2', description: 'a' }],
    ],
    [
      'a JSON array over several lines',
      '\n [{"external_id":"1","description":"ї]}\\"{"},\r\n {"external_id":"2","description":"b"} ]\n',
      JSON_ARRAY,
      [
        { external_id: '1', description: 'ї]}"{' },
        { external_id: '2', description: 'b' },
      ],
    ],
  ];
  for (const [title, content, args, expected] of files) {
    test(`reads ${title} in chunks of any size`, async () => {
      for (const size of [1, 7, 1000]) {
        const { status, stderr, payloads: sentPayloads } = await ingest(content, args, size);
        assert.equal(status, 0, stderr);
        const byId = (one: object, other: object) =>
          String(Object(one).external_id).localeCompare(String(Object(other).external_id));
        assert.deepEqual(sentPayloads.toSorted(byId), expected);
      }
    });
  }

  const LINE = '{"external_id":"1","description":"a"}';
  test('a bad record is reported with its position, and affects no other record', async () => {
    const jsonLines = await ingest(`${LINE}\r\n\n  \n{"a":\n[1]\nnull\n${LINE}`);
    assert.equal(jsonLines.status, 1);
    assert.match(
      jsonLines.stdout,
      /^line 4: is not JSON: .*\nline 5: is not a JSON object\nline 6: is not a JSON object\n/,
    );
    assert.equal(jsonLines.payloads.length, 2);
    const csv = await ingest('external_id,description\n1\n1,2,3\n4,5', CSV);
    assert.deepEqual(csv.lines.slice(0, 2), [
      'line 2: has 1 cells, but the header has 2',
      'line 3: has 3 cells, but the header has 2',
    ]);
    assert.deepEqual(csv.payloads, [{ external_id: '4', description: '5' }]);
    const array = await ingest(`[${LINE},\n7, ${LINE}]`, JSON_ARRAY);
    assert.equal(array.lines[0], 'record 2 (line 2): is not a JSON object');
  });

  const unreadableFiles: [content: string | Uint8Array, args: string[], expected: RegExp][] = [
    [UTF16, CSV, /is UTF-16 text: add --encoding utf-16le$/],
    [UTF16.subarray(2), [...CSV, '--encoding', 'windows-1251'], /add --encoding utf-16le$/],
    [
      UTF16,
      [...CSV, '--encoding', 'utf-16be'],
      /is not utf-16be text: .* or name a different one$/,
    ],
    [RECORD, [...CSV, '--encoding', 'windows-1251'], /is UTF-8 text: omit --encoding$/],
    [WINDOWS_1251, CSV, /is not UTF-8 text \(line 2\): .* such as --encoding windows-1251$/],
    ['', CSV, /standard input is empty: the first line of CSV names the columns/],
    ['\n\r\n', CSV, /is empty/],
    ['a,b,a\n1,2,3', CSV, /has the column "a" twice/],
    ['a,b\n1,2\n"3,4\n5,6\n', CSV, /cannot be read after line \d: a quote is never closed/],
    [`a,b\n1,"${'x'.repeat(3 * MEBIBYTE)}`, CSV, /a record is longer than 2 MiB/],
    ['{"a":1}\n', JSON_ARRAY, /is not a JSON array, .* with "\{": add --format jsonl/],
    ['a;b\n1;2\n', JSON_ARRAY, /begins with "a": name its format with --format$/],
    ['[{"a":1},\n{"a":2}', JSON_ARRAY, /cannot be read from line 2 on: the file ends here/],
    ['[{"a":1}\n{"a":2}]', JSON_ARRAY, /from line 2 on: expected "," or "\]" after the record/],
    ['[{"a":1},\n{"a":no}]', JSON_ARRAY, /from line 2 on: record 2 is not JSON/],
    ['[{"a":1}]\n[]', JSON_ARRAY, /from line 2 on: the array of records has ended/],
    ['[]', JSON_ARRAY, /has no records: its array is empty/],
    ['\n  \n', JSON_LINES, /has no records: it has only blank lines/],
    ['id,опис\n', CSV, /has no records: it names the columns and nothing more/],
    ['id\n1', [...CSV, '--map', 'price=cost'], /there is no column "cost" \(--map price=cost\)/],
    [
      `${LINE}\n`.repeat(500),
      [...JSON_LINES, '--map', 'description=txt'],
      /none of the first 100 records has "txt" \(--map description=txt\): they have external_id/,
    ],
  ];
  test('an unreadable file is reported in one line, and nothing is sent', async () => {
    for (const [content, args, expected] of unreadableFiles) {
      const { status, stderr, payloads: sentPayloads } = await ingest(content, args, 100_000);
      assert.equal(status, 1);
      const [line = '', ...otherLines] = stderr
        .split('\n')
        .filter((text) => text.startsWith('oselya: '));
      assert.match(line, expected);
      assert.deepEqual([otherLines, sentPayloads], [[], []], line);
    }
  });

  test('the most frequent delimiter of the header is used', () => {
    const cases = { 'a,b,c': ',', 'a;b, c;d': ';', 'a\tb\tc': '\t', 'a|b': '|', '"x;y;z",b': ',' };
    for (const [header, expected] of Object.entries(cases)) {
      assert.equal(detectDelimiter(header), expected, header);
    }
  });

  test('a failing read names the input', async () => {
    const { rows } = await openRows({
      path: '-',
      format: 'jsonl',
      encoding: 'utf-8',
      delimiter: undefined,
      onColumns: () => undefined,
      // Like `oselya ingest - < folder`.
      stdin: createReadStream(import.meta.dirname),
      signal: new AbortController().signal,
    });
    const message = 'standard input cannot be read: it is a folder';
    await assert.rejects(Array.fromAsync(rows), { name: 'CommandError', message });
  });
});

suite('payloads', () => {
  function convert(record: Record<string, unknown>, mapping: Record<string, string> = {}) {
    const unknownNames: string[] = [];
    const toPayload = createPayloadConverter({
      source: 'doshka',
      mapping: new Map(Object.entries(mapping)),
      onUnknown: (name) => unknownNames.push(name),
    });
    return { result: toPayload(record), unknownNames };
  }

  test('fields are taken by name, and everything else becomes attributes', () => {
    const { result, unknownNames } = convert({
      source_slug: 'other',
      external_id: 7,
      description: ' Здам квартиру ',
      condition: 'новий ',
      seller: { name: 'Олена' },
      empty: '',
      none: null,
    });
    const attributes = { condition: 'новий ', seller: { name: 'Олена' } };
    const description = ' Здам квартиру ';
    const payload = { source_slug: 'doshka', external_id: '7', description, attributes };
    assert.deepEqual(result, { payload });
    assert.deepEqual(unknownNames, ['condition', 'seller']);
  });

  test('a mapped column fills its field, and a column named like that field becomes an attribute', () => {
    const mapping = { external_id: 'link', url: 'link', description: 'text', price: 'price_usd' };
    const record = { link: 'http://a.example/1', text: 'Flat', price: '5', price_usd: '52 000' };
    const payload = {
      source_slug: 'doshka',
      external_id: 'http://a.example/1',
      url: 'http://a.example/1',
      description: 'Flat',
      price: 52_000,
      attributes: { price: '5' },
    };
    assert.deepEqual(convert(record, mapping).result, { payload });
  });

  const values: [kind: Parameters<typeof convertValue>[0], value: unknown, expected: unknown][] = [
    ['price', ' 52 000 ', 52_000],
    ['price', '1 250 000,50', 1_250_000.5],
    ['price', 'about 5', 'about 5'],
    ['price', '1,200', '1,200'],
    ['price', '1.200', '1.200'],
    ['price', '52000.000', 52_000],
    ['price', '1.20', 1.2],
    ['price', '0,125', 0.125],
    ['price', '5 2', '5 2'],
    ['price', '1e5', '1e5'],
    ['number', '-1', -1],
    ['number', '47,5', 47.5],
    ['number', '47.125', 47.125],
    ['number', '47,125', '47,125'],
    ['text', 9_007_199_254_740_991, '9007199254740991'],
    ['text', 1e21, 1e21],
    ['text', true, true],
    ['list', '+380 00 1, +380 00 2; +380 00 3', ['+380 00 1', '+380 00 2', '+380 00 3']],
    ['list', '["+380 00 1"]', ['+380 00 1']],
    ['list', 'http://a.example/1,2.jpg', ['http://a.example/1,2.jpg']],
    [
      'list',
      'http://a.example/1.jpg,https://a.example/2.jpg | http://a.example/3.jpg',
      ['http://a.example/1.jpg', 'https://a.example/2.jpg', 'http://a.example/3.jpg'],
    ],
  ];
  test('values are converted to the kind of their field', () => {
    for (const [kind, value, expected] of values) {
      assert.deepEqual(convertValue(kind, value), expected, `${kind} ${JSON.stringify(value)}`);
    }
  });

  test('no value of any record is lost', () => {
    const key = fc.oneof(
      fc.constantFrom(...PAYLOAD_FIELDS, '__proto__', 'source_slug'),
      fc.string(),
    );
    fc.assert(
      fc.property(fc.dictionary(key, fc.jsonValue(), { noNullPrototype: true }), (record) => {
        const { result, unknownNames } = convert(record);
        const recordAttributes = convertValue('object', record['attributes']) ?? {};
        if ('reason' in result) {
          const isRepeated = unknownNames.some((name) =>
            Object.hasOwn(Object(recordAttributes), name),
          );
          return assert.ok(isRepeated, result.reason);
        }
        assert.ok(Array.isArray(checkPayload(result.payload)));
        if (typeof recordAttributes !== 'object' || Array.isArray(recordAttributes)) return;
        const unknownColumns = unknownNames.map((name) => [name, record[name]]);
        assert.deepEqual(Object(result.payload['attributes'] ?? {}), {
          ...Object.fromEntries(unknownColumns),
          ...recordAttributes,
        });
      }),
      { numRuns: 300 },
    );
  });
});

suite('delivery', () => {
  const ACCEPTED: ScriptedResponse = { status: 202, body: { raw_id: 7, status: 'pending' } };
  const PROBLEM = { title: 'It failed', detail: 'The disk is full.' };

  /** Sends one payload to a server with scripted responses. The last response repeats. */
  async function send(script: ScriptedResponse[]) {
    const retries: string[] = [];
    const { url, requests } = await startServer(
      () => script[Math.min(requests.length, script.length) - 1] ?? 'reset',
    );
    const deliver = createPayloadSender({
      collector: { url, apiKey: undefined },
      onRetry: (reason) => retries.push(reason),
      initialDelayMs: 1,
    });
    const { signal } = new AbortController();
    return { result: await deliver({ external_id: '1' }, 'key-1', signal), retries, requests };
  }

  test('a rate limit delays the request, and a limit of a day ends the run', async () => {
    const createLimit = (seconds: string) => {
      return { status: 429, headers: { 'retry-after': seconds }, body: PROBLEM };
    };
    const { result, retries } = await send([createLimit('0'), ACCEPTED]);
    assert.deepEqual(result, { outcome: 'accepted' });
    assert.deepEqual(retries, [
      'the collector responded with status 429: The disk is full. Retrying.',
    ]);
    const message =
      /^the collector responded with status 429: .*: run the command again in 24 hours$/;
    await assert.rejects(send([createLimit('86400')]), { name: 'CommandError', message });
  });

  const temporaryFailures: ScriptedResponse[] = [
    'reset',
    { status: 502, body: '"<html>"' },
    { status: 503, headers: { 'retry-after': '0' }, body: PROBLEM },
    ...[408, 425, 429, 500].map((status) => ({ status, body: PROBLEM })),
  ];
  test('a temporary failure is retried up to seven times with the same key', async () => {
    for (const failure of temporaryFailures) {
      const retriedSend = await send([failure, failure, ACCEPTED]);
      assert.deepEqual(retriedSend.result, { outcome: 'accepted' });
      const keys = retriedSend.requests.map(({ headers }) => headers['idempotency-key']);
      assert.deepEqual(keys, ['key-1', 'key-1', 'key-1']);
      const failedSend = await send([failure]);
      assert.deepEqual([failedSend.result.outcome, failedSend.requests.length], ['failed', 7]);
      assert.equal(failedSend.retries.length, 1);
    }
  });

  test('a rejected payload is not retried', async () => {
    for (const status of [400, 409, 413, 415, 422]) {
      const errors = [{ path: 'body/price', message: 'must be >= 0' }];
      const { result, requests } = await send([{ status, body: { title: 'Not valid', errors } }]);
      const reason = `the collector responded with status ${status}: body/price must be >= 0`;
      assert.deepEqual(result, { outcome: 'rejected', reason });
      assert.equal(requests.length, 1);
    }
  });

  test('a response that applies to every record ends the run', async () => {
    const cases: [response: ScriptedResponse, message: RegExp][] = [
      [{ status: 401, body: { title: 'API key needed' } }, /one with the scope ingest/],
      [{ status: 403, body: { title: 'Not allowed', detail: 'Lacks it.' } }, /\(403\): Lacks it\./],
      [{ status: 404, body: { title: 'Not found' } }, /\(404\): Not found: set COLLECTOR_URL/],
      [{ status: 404, body: 'nothing' }, /\(404\) without a reason: set COLLECTOR_URL/],
      [{ status: 200, body: {} }, /is not a collector: set COLLECTOR_URL/],
      [{ status: 308, headers: { location: 'http://other.example/' } }, /is not a collector/],
      [{ status: 202, body: { ok: true } }, /is not a collector/],
    ];
    for (const [response, message] of cases) {
      await assert.rejects(send([response]), { name: 'CommandError', message });
    }
  });
});

suite('load', () => {
  type Settings = {
    rows: Row[];
    /** Whether the input stays open after the rows. */
    waits?: boolean;
    /** Error of the input after the rows. */
    readError?: Error;
    deliver?: (externalId: unknown, signal: AbortSignal) => Promise<Delivery>;
    signal?: AbortSignal;
  };
  const acceptDelivery = () => Promise.resolve<Delivery>({ outcome: 'accepted' });

  async function load(settings: Settings) {
    const { rows, waits = false, readError, deliver = acceptDelivery, signal } = settings;
    const printedLines: string[] = [];
    const rejectedLines: number[] = [];
    const keys: string[] = [];
    const readController = new AbortController();
    async function* read() {
      for (const row of rows) yield await Promise.resolve(row);
      if (readError !== undefined) throw readError;
      if (!waits) return;
      readController.signal.throwIfAborted();
      await new Promise((_, reject) => {
        readController.signal.addEventListener('abort', () => reject(readController.signal.reason));
      });
    }
    const result = await loadRecords(read(), {
      toPayload: (fields) => ({ payload: fields }),
      deliver(payload, key, deliverySignal) {
        keys.push(key);
        return deliver(Object(payload).external_id, deliverySignal);
      },
      dryRun: false,
      keyPrefix: 'load',
      rejectedFile: { add: (row) => void rejectedLines.push(row.line), close: () => undefined },
      signal: signal ?? new AbortController().signal,
      readController,
      onBadRow: (line) => printedLines.push(line),
      onProgress: () => undefined,
    });
    return { ...result, printedLines, rejectedLines, keys };
  }

  const createRow = (line: number, fields: Record<string, unknown> = {}): Row => ({
    line,
    end: line,
    fields: { source_slug: 'a', external_id: String(line), description: 'Flat', ...fields },
  });
  const createRows = (count: number, fields = {}) =>
    Array.from({ length: count }, (_, index) => createRow(index + 1, fields));

  test('records are counted by result, and bad records are printed and kept', async () => {
    const deliveries: Record<string, Delivery> = {
      1: { outcome: 'accepted' },
      3: { outcome: 'rejected', reason: 'no' },
      4: { outcome: 'failed', reason: 'down' },
      7: { outcome: 'unprocessed', reason: 'ended failed' },
    };
    const { counts, printedLines, rejectedLines } = await load({
      rows: [
        ...createRows(4),
        createRow(5, { price: '52.000\u001B[2J', rooms: -1 }),
        { line: 6, end: 6, reason: 'is not JSON', text: '{' },
        createRow(7),
        createRow(8, { price: '52.000' }),
        createRow(9, { external_id: 1e21 }),
      ],
      deliver: (id) => Promise.resolve(deliveries[String(id)] ?? { outcome: 'known' }),
    });
    const expected = { read: 9, accepted: 1, known: 1, unprocessed: 1, rejected: 5, failed: 1 };
    assert.deepEqual(counts, expected);
    assert.deepEqual(printedLines.toSorted(), [
      'line 3: no',
      'line 4: down',
      'line 5: price must be number; rooms must be >= 0',
      'line 6: is not JSON',
      'line 7: ended failed',
      'line 8: price must be number (52.000 may be 52000 or 52: write 52000, or at most two decimals)',
      'line 9: external_id must be string (quote it, so that no digit is lost)',
    ]);
    assert.deepEqual(new Set(rejectedLines), new Set([3, 4, 5, 6, 7, 8, 9]));
  });

  test('an idempotency key contains the position and the content of its record', async () => {
    const { keys } = await load({ rows: createRows(2) });
    const changedLoad = await load({ rows: [createRow(1), createRow(2, { price: 5 })] });
    const movedLoad = await load({ rows: [createRow(2, { external_id: '1' })] });
    assert.equal(changedLoad.keys[0], keys[0]);
    const changedKeys = new Set([changedLoad.keys[1] ?? '', movedLoad.keys[0] ?? '']);
    assert.ok(changedKeys.isDisjointFrom(new Set(keys)));
  });

  test('five failures in a row end the load, even if it waits for input', async () => {
    const fail = () => Promise.resolve<Delivery>({ outcome: 'failed', reason: 'down' });
    for (const settings of [{ rows: createRows(1000) }, { rows: createRows(5), waits: true }]) {
      const { counts, hasGivenUp, error } = await load({ ...settings, deliver: fail });
      assert.deepEqual([hasGivenUp, error], [true, undefined]);
      assert.ok(counts.failed >= 5 && counts.read < 30);
    }
    let requests = 0;
    const flakyLoad = await load({
      rows: createRows(100),
      deliver: () => {
        requests += 1;
        return requests % 5 === 0 ? acceptDelivery() : fail();
      },
    });
    assert.deepEqual([flakyLoad.hasGivenUp, flakyLoad.counts.failed], [false, 80]);
  });

  test('a hundred bad records are printed, and all are kept', async () => {
    const rows = createRows(300, { price: 'x' });
    const { counts, printedLines, rejectedLines } = await load({ rows });
    assert.deepEqual([counts.rejected, rejectedLines.length, printedLines.length], [300, 300, 101]);
    assert.match(printedLines.at(-1) ?? '', /--rejected/);
  });

  test('the records before a read error are delivered', async () => {
    const readError = new Error('line 3 is not text');
    const { counts, error } = await load({
      rows: createRows(2),
      readError,
      deliver: async (_, signal) => setImmediate({ outcome: 'accepted' }, { signal }),
    });
    assert.deepEqual([counts.accepted, error], [2, readError]);
  });

  test('the error that ended a load is reported', async () => {
    const controller = new AbortController();
    const stoppedLoad = await load({
      rows: createRows(100),
      signal: controller.signal,
      deliver: (id) => {
        if (id === '20') controller.abort();
        return acceptDelivery();
      },
    });
    assert.equal((stoppedLoad.error as Error).name, 'AbortError');
    assert.ok(stoppedLoad.counts.accepted >= 20 && stoppedLoad.counts.accepted < 40);
    const failure = new Error('no key');
    const deliver = () => Promise.reject(failure);
    for (const settings of [{ rows: createRows(100) }, { rows: createRows(2), waits: true }]) {
      assert.equal((await load({ ...settings, deliver })).error, failure);
    }
  });
});
