// Validates what its argument names, and prints how many records and findings there were and what the memory
// was at its highest. The test runs it with a heap that holds a fraction of it.
import { createGzip } from 'node:zlib';
import { Readable } from 'node:stream';
import { validateInventory, type ValidateOptions } from '@oselya/inventory';
import { VALID_RECORD } from './findings.ts';
import { peakBytes } from './peak-bytes.ts';

const RECORDS = 200_000;
const RECORDS_PER_CHUNK = 250;
const RECORD = JSON.stringify({ ...VALID_RECORD, notes: 'x'.repeat(250) });

/** 80 MB of records, with this for each hundredth of them. */
function* array(hundredth: string): Generator<Buffer> {
  const records = Array.from({ length: RECORDS_PER_CHUNK }, (_, nth) =>
    nth % 100 === 0 ? hundredth : RECORD,
  );
  const chunk = Buffer.from(`${records.join()},`);
  yield Buffer.from('[');
  for (let sent = 0; sent < RECORDS; sent += RECORDS_PER_CHUNK) yield chunk;
  yield Buffer.from(`${RECORD}]`);
}

/** Short lines, each a chunk of its own, as from a program that flushes at the end of a line. */
function* lines(): Generator<Buffer> {
  const line = Buffer.from(`${JSON.stringify(VALID_RECORD)}\n`);
  for (let sent = 0; sent < 2 * RECORDS; sent += 1) yield line;
}

/** One record in whose object a key is repeated again and again. */
function repeated(keyLength: number, times: number): Buffer[] {
  const members = '"a":1,'.repeat(times);
  return [Buffer.from(`[{"${'k'.repeat(keyLength)}":{${members}"b":1}}]`)];
}

const SOURCES: Record<string, () => Iterable<Buffer> | AsyncIterable<Buffer>> = {
  array: () => array(RECORD),
  faulty: () => array('{"id":"faulty","id":"faulty"}'),
  gzip: () => Readable.from(array(RECORD)).pipe(createGzip({ level: 1 })),
  lines,
  'long key': () => repeated(500_000, 18_000),
  'short keys': () => repeated(1, 19_000),
};

let highestBytes = 0;

async function* measured(source: Iterable<Buffer> | AsyncIterable<Buffer>) {
  let count = 0;
  for await (const chunk of source) {
    yield chunk;
    count += 1;
    if (count % 1000 === 0) measure();
  }
}

function measure(): void {
  const { heapUsed, external } = process.memoryUsage();
  highestBytes = Math.max(highestBytes, heapUsed + external);
}

const kind = process.argv[2] ?? '';
const source = SOURCES[kind]?.();
if (source === undefined) throw new Error(`there is no source ${JSON.stringify(kind)}`);
const options: ValidateOptions = { format: kind === 'lines' ? 'jsonl' : 'json' };
const validation = validateInventory(measured(source), options);
let step = await validation.next();
let findings = 0;
while (!step.done) {
  findings += 1;
  if (findings % 100 === 0) measure();
  step = await validation.next();
}
measure();
process.stdout.write(
  JSON.stringify({
    records: step.value.records,
    findings,
    peakBytes: highestBytes,
    residentBytes: peakBytes(),
  }),
);
