import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { Readable } from 'node:stream';
import { text } from 'node:stream/consumers';
import { pipeline } from 'node:stream/promises';
import { test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { createGzip } from 'node:zlib';
import { getRepetitions } from '@oselya/testing';
import { MAX_RECORD_PARTS } from '../src/limits.ts';
import { VALID_RECORD } from './support.ts';

const RECORD = JSON.stringify({ ...VALID_RECORD, notes: 'x'.repeat(250) });
const RECORD_START = JSON.stringify(VALID_RECORD).slice(0, -1);
/** Size that leaves room for other members below MAX_RECORD_BYTES. */
const ALMOST_MAX_RECORD_BYTES = 1_000_000;

/** Joins members or elements up to the size limit and the part limit of a record. */
function fillRecord(createMember: (index: number) => string): string {
  const members = Array.from({ length: MAX_RECORD_PARTS - 100 }, (_, index) => createMember(index));
  return members
    .join(',')
    .slice(0, ALMOST_MAX_RECORD_BYTES)
    .replace(/,[^,]*$/, '');
}

const createArrayOf = (record: string) => [
  '[',
  ...Array<string>(7).fill(`${record},`),
  `${record}]`,
];

/** Yields 200,001 records, 80 MB by default. About one in a hundred is `rareRecord`. */
function* generateLargeInventory(rareRecord = RECORD): Generator<string> {
  const chunk = `${Array.from({ length: 250 }, (_, index) => (index % 100 ? RECORD : rareRecord)).join()},`;
  yield '[';
  for (let sentRecords = 0; sentRecords < 200_000; sentRecords += 250) yield chunk;
  yield `${RECORD}]`;
}

type Source = AsyncIterable<string | Buffer> | Iterable<string>;

/** Inventories that need a lot of memory unless they are streamed, with the exit status of `validate`. */
const SOURCES: [kind: string, status: number, createSource: () => Source, format?: string][] = [
  ['a large array', 0, () => generateLargeInventory()],
  ['invalid records', 1, () => generateLargeInventory('{"id":"faulty","id":"faulty"}')],
  [
    'a large compressed array',
    0,
    () => Readable.from(generateLargeInventory()).pipe(createGzip({ level: 1 })),
  ],
  ['lines', 0, () => Array<string>(40_000).fill(`${JSON.stringify(VALID_RECORD)}\n`), 'jsonl'],
  [
    'a long repeated key',
    1,
    () => [`[{"${'k'.repeat(500_000)}":{${'"a":1,'.repeat(18_000)}"b":1}}]`],
  ],
  [
    'one huge record',
    1,
    () => [
      `[${RECORD_START},"x":[`,
      ...Array<string>(40).fill(`${fillRecord(() => '{}')},`),
      '1]}]',
    ],
  ],
  [
    'huge strings',
    0,
    () => createArrayOf(`${RECORD_START},"notes":"${'€'.repeat(ALMOST_MAX_RECORD_BYTES / 3)}"}`),
  ],
  [
    'many values',
    1,
    () => createArrayOf(`${RECORD_START},"port":"x","y":[${fillRecord(() => '""')}]}`),
  ],
  ['many keys', 1, () => createArrayOf(`{"id":1,${fillRecord((index) => `"ключ${index}":1`)}}`)],
  ['repeated keys', 1, () => createArrayOf(`{"id":1,"x":{${fillRecord(() => '"":123456789')}}}`)],
];

/** Maximum memory of the whole process, including Node (docs/adr/0022-size-of-a-record.md). */
const PEAK_BYTES = 150_000_000;

const resolvePath = (relative: string) => fileURLToPath(new URL(relative, import.meta.url));
const COMMAND = [resolvePath('../../../apps/cli/bin/oselya.js'), 'inventory'];

// `resourceUsage` may include the parent process (getrusage(2)); /proc does not.
const PRINT_PEAK = `data:text/javascript,${encodeURIComponent(`
  import { readFileSync, writeSync } from 'node:fs';
  process.on('exit', () => {
    const status = process.platform === 'linux' ? readFileSync('/proc/self/status', 'utf8') : '';
    const kilobytes = /^VmHWM:\\s+(\\d+) kB$/m.exec(status)?.[1] ?? process.resourceUsage().maxRSS;
    writeSync(2, String(1024 * kilobytes));
  });
`)}`;

const isSoak = getRepetitions({ soak: 1, ci: 0 }) === 1;
const QUICK_KINDS = new Set(['invalid records', 'repeated keys']);

for (const [kind, status, createSource, format = 'json'] of SOURCES) {
  if (isSoak || QUICK_KINDS.has(kind)) {
    test(`The memory of validate is bounded: ${kind}`, { timeout: 480_000 }, async () => {
      const child = spawn(
        process.execPath,
        ['--import', PRINT_PEAK, ...COMMAND, 'validate', '--input-format', format, '-'],
        { stdio: ['pipe', 'ignore', 'pipe'] },
      );
      const closeEvent = once(child, 'close');
      const [peakOutput] = await Promise.all([
        text(child.stderr),
        pipeline(Readable.from(createSource()), child.stdin),
      ]);
      assert.deepEqual(await closeEvent, [status, null], peakOutput);
      assert.ok(Number(peakOutput) > 0 && Number(peakOutput) <= PEAK_BYTES, `${peakOutput} bytes`);
    });
  }
}
