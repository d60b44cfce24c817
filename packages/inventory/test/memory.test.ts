import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { Readable } from 'node:stream';
import { text } from 'node:stream/consumers';
import { pipeline } from 'node:stream/promises';
import { test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { createGzip } from 'node:zlib';
import { MAX_RECORD_PARTS } from '../src/limits.ts';
import { VALID_RECORD } from './support.ts';

const RECORD = JSON.stringify({ ...VALID_RECORD, notes: 'x'.repeat(250) });
const HEAD = JSON.stringify(VALID_RECORD).slice(0, -1);
/** Almost the maximum size of a record. */
const BYTES = 1_000_000;

/** Fills a record with members or items up to the limits of size and number. */
function fillRecord(one: (nth: number) => string): string {
  const all = Array.from({ length: MAX_RECORD_PARTS - 100 }, (_, nth) => one(nth));
  return all
    .join(',')
    .slice(0, BYTES)
    .replace(/,[^,]*$/, '');
}

const repeated = (record: string) => ['[', ...Array<string>(7).fill(`${record},`), `${record}]`];

/** Yields 80 MB of records. Every hundredth record is `hundredth`. */
function* generateLargeInventory(hundredth = RECORD): Generator<string> {
  const chunk = `${Array.from({ length: 250 }, (_, nth) => (nth % 100 ? RECORD : hundredth)).join()},`;
  yield '[';
  for (let sent = 0; sent < 200_000; sent += 250) yield chunk;
  yield `${RECORD}]`;
}

type Source = {
  status: number;
  chunks: () => AsyncIterable<string | Buffer> | Iterable<string>;
  args?: string[];
};

/** Inventories that need much memory unless they are streamed. */
const SOURCES: Record<string, Source> = {
  'a large array': { status: 0, chunks: () => generateLargeInventory() },
  'invalid records': {
    status: 1,
    chunks: () => generateLargeInventory('{"id":"faulty","id":"faulty"}'),
  },
  'a large compressed array': {
    status: 0,
    chunks: () => Readable.from(generateLargeInventory()).pipe(createGzip({ level: 1 })),
  },
  lines: {
    status: 0,
    args: ['--input-format', 'jsonl'],
    chunks: () => Array<string>(40_000).fill(`${JSON.stringify(VALID_RECORD)}\n`),
  },
  'a long repeated key': {
    status: 1,
    chunks: () => [`[{"${'k'.repeat(500_000)}":{${'"a":1,'.repeat(18_000)}"b":1}}]`],
  },
  'one huge record': {
    status: 1,
    chunks: () => [
      `[${HEAD},"x":[`,
      ...Array<string>(40).fill(`${fillRecord(() => '{}')},`),
      '1]}]',
    ],
  },
  'huge strings': {
    status: 0,
    chunks: () => repeated(`${HEAD},"notes":"${'€'.repeat(BYTES / 3)}"}`),
  },
  'many values': {
    status: 1,
    chunks: () => repeated(`${HEAD},"port":"x","y":[${fillRecord(() => '""')}]}`),
  },
  'many keys': {
    status: 1,
    chunks: () => repeated(`{"id":1,${fillRecord((nth) => `"ключ${nth}":1`)}}`),
  },
  'repeated keys': {
    status: 1,
    chunks: () => repeated(`{"id":1,"x":{${fillRecord(() => '"":123456789')}}}`),
  },
};

/** The maximum of the whole process, Node included (docs/adr/0022-size-of-a-record.md). */
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

const SHORT = new Set(['invalid records', 'repeated keys']);

for (const [kind, { status, chunks, args = [] }] of Object.entries(SOURCES)) {
  if (process.env['ALL_MEMORY_RUNS'] || SHORT.has(kind)) {
    test(`The memory of validate is bounded: ${kind}`, { timeout: 480_000 }, async () => {
      const started = spawn(
        process.execPath,
        ['--import', PRINT_PEAK, ...COMMAND, 'validate', ...args, '-'],
        { stdio: ['pipe', 'ignore', 'pipe'] },
      );
      const ended = once(started, 'close');
      const [printed] = await Promise.all([
        text(started.stderr),
        pipeline(Readable.from(chunks()), started.stdin),
      ]);
      assert.deepEqual(await ended, [status, null], printed);
      assert.ok(Number(printed) > 0 && Number(printed) <= PEAK_BYTES, `${printed} bytes`);
    });
  }
}
