import assert from 'node:assert/strict';
import { createReadStream, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Readable } from 'node:stream';
import { after, suite, test } from 'node:test';
import { checkPayload } from '@oselya/collector/payload';
import fc from 'fast-check';
import { CommandError } from '../src/command.ts';
import { type DelimiterName, detectDelimiter, readCsv } from '../src/ingest/csv.ts';
import { createThrottle, deliverPayload, type Delivery } from '../src/ingest/deliver.ts';
import { createLoadReport, loadRecords, openRejectedFile } from '../src/ingest/load.ts';
import {
  checkMapping,
  createPayloadConverter,
  PAYLOAD_FIELDS,
  convertValue,
} from '../src/ingest/payload.ts';
import type { Row } from '../src/ingest/row.ts';
import { openRows, readJsonArray, readJsonLines } from '../src/ingest/rows.ts';
import { decodeText } from '../src/ingest/text.ts';
import { type Played, type Received, startServer } from './support/loopback.ts';

const MIB = 1024 * 1024;

/** Bytes in chunks. */
function chunksOf(content: string | Uint8Array, size: number): AsyncIterable<Uint8Array> {
  const bytes = Buffer.from(content);
  const count = Math.ceil(bytes.length / size);
  return Readable.from(
    Array.from({ length: count }, (_, nth) => bytes.subarray(nth * size, (nth + 1) * size)),
  );
}

/** Text in pieces of a number of characters. */
async function* piecesOf(content: string, size = 7): AsyncGenerator<string> {
  const characters = Array.from(content);
  for (let start = 0; start < characters.length; start += size) {
    yield await Promise.resolve(characters.slice(start, start + size).join(''));
  }
}

/** Rows as their lines with their fields or reasons. */
async function collect(rows: AsyncIterable<Row>): Promise<[number, unknown][]> {
  return (await Array.fromAsync(rows)).map((row) => [
    row.line,
    'fields' in row ? { ...row.fields } : row.reason,
  ]);
}

function rejectsWith(work: Promise<unknown>, expected: RegExp): Promise<void> {
  return assert.rejects(work, (error) => {
    assert.ok(error instanceof CommandError, String(error));
    assert.match(error.message, expected);
    return true;
  });
}

suite('text', () => {
  // "Київ, 3 к.\nЛьвів" in Windows-1251.
  const WINDOWS_1251 = Buffer.from('cae8bfe22c203320ea2e0acbfce2b3e2', 'hex');
  const utf16 = (text: string) => Buffer.from(text, 'utf16le');
  const RECORD = '{"external_id":"1","description":"Продам гараж у Луцьку, 18 кв. м"}\n';

  async function decode(content: string | Uint8Array, encoding = 'utf-8', size = 7) {
    const read = { bytes: 0, utf8Bytes: 0 };
    const text = await Array.fromAsync(
      decodeText(chunksOf(content, size), { name: 'a.csv', encoding }, read),
    );
    return { text: text.join(''), read };
  }

  test('joins characters that chunks cut, and drops a byte order mark', async () => {
    for (const size of [1, 2, 3, 100]) {
      const { text, read } = await decode('\uFEFFЇжак 😀', 'utf-8', size);
      assert.equal(text, 'Їжак 😀');
      assert.deepEqual(read, { bytes: 16, utf8Bytes: 13 });
    }
  });

  test('reads a named encoding', async () => {
    assert.equal((await decode(WINDOWS_1251, 'windows-1251')).text, 'Київ, 3 к.\nЛьвів');
    assert.equal((await decode(utf16(`\uFEFF${RECORD}`), 'utf-16le')).text, RECORD);
    assert.equal((await decode(utf16(`\uFEFF${RECORD}`).swap16(), 'utf-16be')).text, RECORD);
    assert.equal((await decode('Garage in Lutsk', 'windows-1251')).text, 'Garage in Lutsk');
  });

  test('names the likely encoding before it decodes anything', async () => {
    const cases: [content: string | Uint8Array, encoding: string, expected: RegExp][] = [
      [utf16(`\uFEFF${RECORD}`), 'utf-8', /a\.csv is UTF-16 text: add --encoding utf-16le$/],
      [utf16(`\uFEFF${RECORD}`).swap16(), 'utf-8', /add --encoding utf-16be$/],
      [utf16(RECORD), 'windows-1251', /is UTF-16 text: add --encoding utf-16le$/],
      [utf16(`\uFEFF${RECORD}`), 'utf-16be', /is not utf-16be text: .* or name another$/],
      [RECORD, 'windows-1251', /is UTF-8 text: leave --encoding out$/],
      [RECORD, 'utf-16le', /is not utf-16le text: leave --encoding out for UTF-8/],
    ];
    for (const [content, encoding, expected] of cases) {
      for (const size of [7, 1000]) await rejectsWith(decode(content, encoding, size), expected);
    }
  });

  test('names the line of a byte that is not of the encoding', async () => {
    for (const size of [1, 4, 100]) {
      await rejectsWith(
        decode(Buffer.concat([Buffer.from('a,b\n1,2\n'), WINDOWS_1251]), 'utf-8', size),
        /^a\.csv is not UTF-8 text \(line 3\): save it as UTF-8, or name its encoding/,
      );
    }
  });
});

suite('CSV', () => {
  async function read(content: string, delimiter?: DelimiterName, size?: number) {
    let columns: string[] = [];
    const onColumns = (names: string[]) => void (columns = names);
    const rows = await collect(
      readCsv(piecesOf(content, size), { name: 'a.csv', delimiter, onColumns }),
    );
    return { columns, rows };
  }

  test('reads quoted delimiters, quotes and line ends', async () => {
    for (const size of [1, 7, 1000]) {
      const { columns, rows } = await read(
        'id, description \r\n1,"two, ""rooms""\nnear the park"\r\n\r\n2,12" window\r\n3,\r\n',
        undefined,
        size,
      );
      assert.deepEqual(columns, ['id', 'description']);
      assert.deepEqual(rows, [
        [2, { id: '1', description: 'two, "rooms"\nnear the park' }],
        [5, { id: '2', description: '12" window' }],
        [6, { id: '3', description: '' }],
      ]);
    }
  });

  test('reports a record of another width and reads the next one', async () => {
    const { rows } = await read('a,b\n1\n1,2,3\n4,5');
    assert.deepEqual(rows, [
      [2, 'has 1 cells, but the header has 2'],
      [3, 'has 3 cells, but the header has 2'],
      [4, { a: '4', b: '5' }],
    ]);
  });

  test('names unnamed columns and accepts any name', async () => {
    const { columns, rows } = await read('a,,__proto__\n1,2,3');
    assert.deepEqual(columns, ['a', 'column_2', '__proto__']);
    assert.deepEqual(Object.values(rows[0]?.[1] ?? {}), ['1', '2', '3']);
  });

  test('takes the most frequent delimiter of the header, or the named one', async () => {
    const cases = { 'a,b,c': ',', 'a;b, c;d': ';', 'a\tb\tc': '\t', 'a|b': '|', '"x;y;z",b': ',' };
    for (const [header, expected] of Object.entries(cases)) {
      assert.equal(detectDelimiter(header), expected, header);
    }
    assert.deepEqual((await read('a;b\n1,5;2')).rows, [[2, { a: '1,5', b: '2' }]]);
    assert.deepEqual((await read('a;b,c\n1;2,3', 'comma')).rows, [[2, { 'a;b': '1;2', c: '3' }]]);
  });

  test('rejects a file that cannot be read, with what to do', async () => {
    const cases: [content: string, expected: RegExp][] = [
      ['', /a\.csv is empty: the first line of CSV names the columns/],
      ['\n\r\n', /is empty/],
      ['a,b,a\n1,2,3', /has the column "a" twice/],
      ['a,b\n1,2\n"3,4\n5,6\n', /cannot be read after line \d: a quote is never closed/],
      [`a,b\n1,"${'x'.repeat(3 * MIB)}`, /a record is longer than 2 MiB/],
    ];
    for (const [content, expected] of cases) {
      await rejectsWith(read(content, undefined, 100_000), expected);
    }
  });
});

suite('JSON Lines', () => {
  test('reads each line by its number, and a bad line affects no other', async () => {
    const text = '{"a":1}\r\n\n  \n{"a":\n[1]\n"x"\nnull\n{"a":"ї\\n"}';
    const rows = await collect(readJsonLines(piecesOf(text)));
    assert.deepEqual(
      rows.map(([line, found]) => [line, typeof found === 'string' ? 'bad' : found]),
      [
        [1, { a: 1 }],
        [4, 'bad'],
        [5, 'bad'],
        [6, 'bad'],
        [7, 'bad'],
        [8, { a: 'ї\n' }],
      ],
    );
    assert.match(String(rows[1]?.[1]), /^is not JSON: /);
    assert.equal(rows[2]?.[1], 'is not a JSON object');
  });
});

suite('JSON array', () => {
  const read = (text: string, size?: number) => readJsonArray(piecesOf(text, size), 'a.json');

  test('reads each object with its line and number', async () => {
    const text = '\n [{"a":1}, {"a":"ї]}\\"{"},\n7, [{}],\r\n {"b":{"c":[1]}} ]\n';
    for (const size of [1, 3, 1000]) {
      const rows = await Array.fromAsync(read(text, size));
      assert.deepEqual(
        rows.map((row) => [row.index, row.line, 'fields' in row ? row.fields : row.reason]),
        [
          [1, 2, { a: 1 }],
          [2, 2, { a: 'ї]}"{' }],
          [3, 3, 'is not a JSON object'],
          [4, 3, 'is not a JSON object'],
          [5, 4, { b: { c: [1] } }],
        ],
      );
    }
    assert.deepEqual(await collect(read('[]')), []);
    assert.deepEqual(await collect(read(' \n')), []);
  });

  test('says where it stops and what to do', async () => {
    const cases: [text: string, expected: RegExp][] = [
      ['{"a":1}\n', /a\.json is not a JSON array, .* with "\{": add --format jsonl/],
      ['a;b\n1;2\n', /begins with "a": name its format with --format$/],
      ['[{"a":1},\n{"a":2}', /cannot be read from line 2 on: the file ends here/],
      ['[{"a":1}\n{"a":2}]', /from line 2 on: expected "," or "\]" after the record/],
      ['[{"a":1},\n{"a":no}]', /from line 2 on: record 2 is not JSON/],
      ['[{"a":1}]\n[]', /from line 2 on: the array of records has ended/],
    ];
    for (const [text, expected] of cases) await rejectsWith(collect(read(text)), expected);
  });
});

test('a failing read names the input', async () => {
  const { rows } = await openRows({
    path: '-',
    format: 'jsonl',
    encoding: 'utf-8',
    delimiter: undefined,
    onColumns: () => undefined,
    // As with `oselya ingest - < folder`.
    stdin: createReadStream(import.meta.dirname),
    signal: new AbortController().signal,
  });
  await rejectsWith(Array.fromAsync(rows), /^standard input cannot be read: it is a folder$/);
});

suite('payloads', () => {
  function makeOf(record: Record<string, unknown>, mapping: Record<string, string> = {}) {
    const unknown: string[] = [];
    const toPayload = createPayloadConverter({
      source: 'doshka',
      mapping: new Map(Object.entries(mapping)),
      onUnknown: (name) => unknown.push(name),
    });
    return { made: toPayload(record), unknown };
  }

  function payloadOf(record: Record<string, unknown>, mapping: Record<string, string> = {}) {
    const { made } = makeOf(record, mapping);
    assert.ok('payload' in made);
    return made.payload;
  }

  test('take fields by name, and everything else as attributes', () => {
    const { made, unknown } = makeOf({
      source_slug: 'other',
      external_id: 7,
      description: ' Здам квартиру ',
      condition: 'новий ',
      seller: { name: 'Олена' },
      empty: '',
      none: null,
    });
    assert.deepEqual(made, {
      payload: {
        source_slug: 'doshka',
        external_id: '7',
        description: ' Здам квартиру ',
        attributes: { condition: 'новий ', seller: { name: 'Олена' } },
      },
    });
    assert.deepEqual(unknown, ['condition', 'seller']);
  });

  test('take mapped columns, and keep a column with the name of a mapped field', () => {
    const mapping = { external_id: 'link', url: 'link', description: 'text', price: 'price_usd' };
    const record = { link: 'http://a.example/1', text: 'Flat', price: '5', price_usd: '52 000' };
    assert.deepEqual(payloadOf(record, mapping), {
      source_slug: 'doshka',
      external_id: 'http://a.example/1',
      url: 'http://a.example/1',
      description: 'Flat',
      price: 52_000,
      attributes: { price: '5' },
    });
  });

  const values: [field: string, value: unknown, expected: unknown][] = [
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
    ['floor', '-1', -1],
    ['area_total', '47,5', 47.5],
    ['area_total', '47.125', 47.125],
    ['area_total', '47,125', '47,125'],
    ['external_id', 9_007_199_254_740_991, '9007199254740991'],
    ['external_id', 1e21, 1e21],
    ['title', true, true],
    ['phones', '+380 00 1, +380 00 2; +380 00 3', ['+380 00 1', '+380 00 2', '+380 00 3']],
    ['phones', '["+380 00 1"]', ['+380 00 1']],
    ['image_urls', 'http://a.example/1,2.jpg', ['http://a.example/1,2.jpg']],
    [
      'image_urls',
      'http://a.example/1.jpg,https://a.example/2.jpg | http://a.example/3.jpg',
      ['http://a.example/1.jpg', 'https://a.example/2.jpg', 'http://a.example/3.jpg'],
    ],
  ];
  for (const [field, value, expected] of values) {
    test(`read ${field} ${JSON.stringify(value)} as ${JSON.stringify(expected)}`, () => {
      assert.deepEqual(payloadOf({ [field]: value })[field], expected);
    });
  }

  test('lose no value of any record', () => {
    const key = fc.oneof(
      fc.constantFrom(...PAYLOAD_FIELDS, '__proto__', 'source_slug'),
      fc.string(),
    );
    fc.assert(
      fc.property(fc.dictionary(key, fc.jsonValue(), { noNullPrototype: true }), (record) => {
        const { made, unknown } = makeOf(record);
        const own = convertValue('object', record['attributes']) ?? {};
        if ('reason' in made) {
          return assert.ok(
            unknown.some((name) => Object.hasOwn(Object(own), name)),
            made.reason,
          );
        }
        assert.ok(Array.isArray(checkPayload(made.payload)));
        if (typeof own !== 'object' || Array.isArray(own)) return;
        const kept = Object(made.payload['attributes'] ?? {});
        for (const name of unknown) assert.deepEqual(kept[name], record[name]);
        for (const [name, value] of Object.entries(own)) assert.deepEqual(kept[name], value);
        assert.equal(Object.keys(kept).length, new Set([...unknown, ...Object.keys(own)]).size);
      }),
      { numRuns: 300 },
    );
  });
});

suite('mapped columns', () => {
  async function check(records: object[], mapping: Record<string, string>) {
    const notes: string[] = [];
    const text = records.map((record) => JSON.stringify(record)).join('\n');
    const rows = checkMapping(
      readJsonLines(piecesOf(text, 1000)),
      new Map(Object.entries(mapping)),
      (line) => notes.push(line),
    );
    return { count: (await Array.fromAsync(rows)).length, notes };
  }
  const many = (count: number) => Array.from({ length: count }, () => ({ id: '1', text: 'Гараж' }));

  test('are missed before any record passes', async () => {
    await rejectsWith(
      check(many(3), { price: 'cost' }),
      /^no record has "cost" \(--map price=cost\): they have id, text$/,
    );
    await rejectsWith(
      check(many(500), { price: 'cost', description: 'txt', external_id: 'id' }),
      /none of the first 100 records has "txt" \(--map description=txt\): they have id, text$/,
    );
  });
});

suite('delivery', () => {
  const ACCEPTED: Played = { status: 202, body: { raw_id: 7, status: 'pending' } };
  const PROBLEM = { title: 'It failed', detail: 'The disk is full.' };

  /** Sends one payload to a server that plays a script and repeats its last line. */
  async function send(script: Played[], apiKey?: string) {
    const received: Received[] = [];
    const { url } = await startServer((request) => {
      received.push(request);
      return script[Math.min(received.length, script.length) - 1] ?? 'reset';
    });
    return { ...(await sendTo(url, apiKey)), received };
  }

  async function sendTo(url: string, apiKey?: string, signal = new AbortController().signal) {
    const retries: string[] = [];
    const held: number[] = [];
    const throttle = createThrottle();
    const result = await deliverPayload({ external_id: '1' }, 'key-1', {
      collector: { url, apiKey },
      throttle: {
        wait: (stop) => throttle.wait(stop),
        delay(durationMs) {
          held.push(durationMs);
          throttle.delay(Math.min(durationMs, 5));
        },
      },
      signal,
      onRetry: (reason) => retries.push(reason),
      initialDelayMs: 1,
    });
    return { result, retries, held };
  }

  test('reports the status of an earlier record', async () => {
    for (const status of ['pending', 'processing', 'completed', 'failed', 'invalid']) {
      const headers = { 'idempotent-replayed': 'true' };
      const { result } = await send([{ status: 202, headers, body: { raw_id: 7, status } }]);
      const reason = `was stored before (raw_id 7) and ended ${status}`;
      const isEnded = status === 'failed' || status === 'invalid';
      assert.deepEqual(result, isEnded ? { outcome: 'unprocessed', reason } : { outcome: 'known' });
    }
  });

  const limited = (seconds: string): Played => ({
    status: 429,
    headers: { 'retry-after': seconds },
    body: PROBLEM,
  });

  test('waits for a limit as often as needed, at least a second', async () => {
    const limits = Array.from({ length: 20 }, () => limited('57'));
    const { result, held, retries } = await send([...limits, limited('0'), ACCEPTED]);
    assert.deepEqual(result, { outcome: 'accepted' });
    assert.deepEqual(held, [...Array(20).fill(57_000), 1000]);
    assert.equal(retries[0], 'the collector answered 429: The disk is full');
  });

  test('ends the run at a limit of a day', async () => {
    const detail = 'No more than 3 new sources a day.';
    const { url } = await startServer(() => ({
      status: 429,
      headers: { 'retry-after': '86400' },
      body: { title: 'Too many requests', detail },
    }));
    await rejectsWith(
      sendTo(url),
      /^the collector answered 429: No more than 3 new sources a day: give the command again in 24 hours$/,
    );
  });

  const passing: Played[] = [
    'reset',
    { status: 500, body: PROBLEM },
    { status: 502, body: '"<html>"' },
    { status: 503, headers: { 'retry-after': '0' }, body: PROBLEM },
    { status: 408, body: PROBLEM },
    { status: 425, body: PROBLEM },
    { status: 429, body: PROBLEM },
  ];
  for (const played of passing) {
    test(`retries ${JSON.stringify(played)} seven times with the same key`, async () => {
      const passed = await send([played, played, ACCEPTED]);
      assert.deepEqual(passed.result, { outcome: 'accepted' });
      const keys = passed.received.map(({ headers }) => headers['idempotency-key']);
      assert.deepEqual(keys, ['key-1', 'key-1', 'key-1']);
      const failed = await send([played]);
      assert.equal(failed.result.outcome, 'failed');
      assert.equal(failed.received.length, 7);
      assert.equal(failed.retries.length, 6);
    });
  }

  test('does not retry a rejected payload', async () => {
    for (const status of [400, 409, 413, 415, 422]) {
      const errors = [{ path: 'body/price', message: 'must be >= 0' }];
      const { result, received } = await send([{ status, body: { title: 'Not valid', errors } }]);
      const reason = `the collector answered ${status}: body/price must be >= 0`;
      assert.deepEqual(result, { outcome: 'rejected', reason });
      assert.equal(received.length, 1);
    }
  });

  test('ends the run at an answer that every record would get', async () => {
    const cases: [played: Played, expected: RegExp][] = [
      [{ status: 401, body: { title: 'API key needed' } }, /one with the scope ingest/],
      [{ status: 403, body: { title: 'Not allowed', detail: 'Lacks it.' } }, /\(403\): Lacks it\./],
      [{ status: 404, body: 'nothing' }, /\(404\) without a reason: set COLLECTOR_URL/],
      [{ status: 200, body: {} }, /is not a collector: set COLLECTOR_URL/],
      [{ status: 308, headers: { location: 'http://other.example/' } }, /is not a collector/],
      [{ status: 202, body: { ok: true } }, /is not a collector/],
    ];
    for (const [played, expected] of cases) await rejectsWith(send([played]), expected);
  });
});

suite('load', () => {
  type Settings = {
    rows: Row[];
    /** Waits for another row after them. */
    waits?: boolean;
    deliver?: (payload: Record<string, unknown>) => Promise<Delivery>;
    dryRun?: boolean;
    keyPrefix?: string;
    signal?: AbortSignal;
  };
  const accept = () => Promise.resolve<Delivery>({ outcome: 'accepted' });

  async function run(settings: Settings) {
    const { rows, waits = false, deliver: send = accept, dryRun = false } = settings;
    const report = createLoadReport();
    const printed: string[] = [];
    const rejected: number[] = [];
    const keys: string[] = [];
    const stopReading = new AbortController();
    async function* read() {
      for (const row of rows) yield await Promise.resolve(row);
      if (!waits) return;
      await new Promise((_, reject) => {
        stopReading.signal.addEventListener('abort', () => reject(stopReading.signal.reason));
      });
    }
    const failure = await loadRecords(
      read(),
      {
        toPayload: (fields) => ({ payload: fields }),
        deliver: (payload, key) => {
          keys.push(key);
          return send({ ...payload });
        },
        dryRun,
        keyPrefix: settings.keyPrefix ?? 'load',
        rejectedFile: {
          add: (row) => {
            rejected.push(row.line);
            return Promise.resolve();
          },
          end: () => Promise.resolve(),
        },
        signal: settings.signal ?? new AbortController().signal,
        stopReading,
        onBadRow: (line) => printed.push(line),
        onProgress: () => undefined,
      },
      report,
    ).then(
      () => undefined,
      (error: unknown) => error,
    );
    return { report, printed, rejected, keys, failure };
  }

  const row = (line: number, fields: Record<string, unknown> = {}): Row => ({
    line,
    end: line,
    fields: { source_slug: 'a', external_id: String(line), description: 'Flat', ...fields },
  });
  const rows = (count: number) => Array.from({ length: count }, (_, nth) => row(nth + 1));

  test('counts records by result, and prints and keeps bad ones', async () => {
    const deliveries: Record<string, Delivery> = {
      1: { outcome: 'accepted' },
      2: { outcome: 'known' },
      3: { outcome: 'rejected', reason: 'no' },
      4: { outcome: 'failed', reason: 'down' },
      7: { outcome: 'unprocessed', reason: 'ended failed' },
    };
    const { report, printed, rejected } = await run({
      rows: [
        ...rows(4),
        row(5, { price: '52.000\u001B[2J', rooms: -1 }),
        { line: 6, end: 6, reason: 'is not JSON', found: '{' },
        row(7),
        row(8, { price: '52.000' }),
        row(9, { external_id: 1e21 }),
      ],
      deliver: ({ external_id: id }) =>
        Promise.resolve(deliveries[String(id)] ?? { outcome: 'known' }),
    });
    const { counts } = report;
    assert.deepEqual(counts, {
      read: 9,
      accepted: 1,
      known: 1,
      unprocessed: 1,
      rejected: 5,
      failed: 1,
    });
    assert.deepEqual(printed.toSorted(), [
      'line 3: no',
      'line 4: down',
      'line 5: price must be number; rooms must be >= 0',
      'line 6: is not JSON',
      'line 7: ended failed',
      'line 8: price must be number (52.000 may be 52000 or 52: write 52000, or at most two decimals)',
      'line 9: external_id must be string (quote it, so that no digit is lost)',
    ]);
    assert.deepEqual(new Set(rejected), new Set([3, 4, 5, 6, 7, 8, 9]));
  });

  test('makes keys of the load, the place and the content', async () => {
    const first = await run({ rows: rows(3) });
    assert.deepEqual((await run({ rows: rows(3) })).keys, first.keys);
    assert.equal(new Set(first.keys).size, 3);
    const changed = await run({ rows: [row(1), row(2, { price: 5 }), row(3)] });
    assert.deepEqual(
      changed.keys.map((key, nth) => key === first.keys[nth]),
      [true, false, true],
    );
    const moved = await run({ rows: [row(2, { external_id: '1' })] });
    const other = await run({ rows: rows(1), keyPrefix: 'other' });
    for (const key of [...moved.keys, ...other.keys]) assert.ok(!first.keys.includes(key));
    for (const key of first.keys) assert.match(key, /^[\x20-\x7e]{1,255}$/);
  });

  test('gives up after five failures in a row, also while it waits for input', async () => {
    const down = () => Promise.resolve<Delivery>({ outcome: 'failed', reason: 'down' });
    for (const settings of [{ rows: rows(1000) }, { rows: rows(5), waits: true }]) {
      const { report, failure } = await run({ ...settings, deliver: down });
      assert.equal(report.hasGivenUp, true);
      assert.equal(failure, undefined);
      assert.ok(report.counts.failed >= 5 && report.counts.read < 30);
    }
    let nth = 0;
    const flaky = await run({
      rows: rows(100),
      deliver: () => {
        nth += 1;
        return nth % 5 === 0 ? accept() : down();
      },
    });
    assert.equal(flaky.report.hasGivenUp, false);
    assert.deepEqual([flaky.report.counts.accepted, flaky.report.counts.failed], [20, 80]);
  });

  test('prints a hundred bad records and keeps all', async () => {
    const { report, printed, rejected } = await run({
      rows: Array.from({ length: 300 }, (_, nth) => row(nth + 1, { price: 'x' })),
    });
    assert.deepEqual([report.counts.rejected, rejected.length, printed.length], [300, 300, 101]);
    assert.match(printed.at(-1) ?? '', /--rejected/);
  });

  test('ends with the cause when it is stopped or cannot continue', async () => {
    const controller = new AbortController();
    const stopped = await run({
      rows: rows(100),
      signal: controller.signal,
      deliver: ({ external_id: id }) => {
        if (id === '20') controller.abort();
        return accept();
      },
    });
    assert.equal((stopped.failure as Error).name, 'AbortError');
    assert.ok(stopped.report.counts.accepted >= 20 && stopped.report.counts.accepted < 40);
    for (const waits of [false, true]) {
      const deny = () => Promise.reject(new Error('no key'));
      const hopeless = await run({ rows: rows(waits ? 2 : 100), waits, deliver: deny });
      assert.equal((hopeless.failure as Error).message, 'no key');
    }
  });
});

suite('rejected records', () => {
  const folder = mkdtempSync(join(tmpdir(), 'oselya-rejected-'));
  after(() => rmSync(folder, { recursive: true }));

  test('replace an earlier file', async () => {
    const path = join(folder, 'a.rejected.jsonl');
    writeFileSync(path, 'an earlier run\n');
    const file = await openRejectedFile(path);
    await file.add({ line: 2, end: 9, fields: { price: 'x\n' } }, 'price must be number');
    await file.add({ line: 3, end: 12, reason: 'is not JSON', found: '{' }, 'is not JSON');
    for (let line = 4; line < 1000; line += 1) {
      await file.add({ line, end: 0, fields: { text: 'x'.repeat(1000) } }, 'no');
    }
    await file.end();
    const lines = readFileSync(path, 'utf8').split('\n').slice(0, -1);
    assert.equal(lines.length, 998);
    assert.deepEqual(
      lines.slice(0, 2).map((line): unknown => JSON.parse(line)),
      [
        { line: 2, reason: 'price must be number', record: { price: 'x\n' } },
        { line: 3, reason: 'is not JSON', record: '{' },
      ],
    );
  });

  test('fail with the path that cannot be written', async () => {
    await rejectsWith(
      openRejectedFile(join(folder, 'missing', 'a.jsonl')),
      /a\.jsonl cannot be written: .*ENOENT/,
    );
  });
});
