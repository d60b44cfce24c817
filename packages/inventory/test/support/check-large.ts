// Runs the command, as its own process does, on 300,000 records, 120 MB in all, of which one in a hundred is no record, and prints the
// size of the part of the heap for new values at the beginning and at the end.
import { Readable, Writable } from 'node:stream';
import { getHeapSpaceStatistics } from 'node:v8';
import { keepHeapSmall, runInventory } from '@oselya/inventory';
import { VALID_RECORD } from './findings.ts';

const CHUNKS = 3_000;
const record = JSON.stringify({ ...VALID_RECORD, notes: 'x'.repeat(250) });

function* inventory() {
  const chunk = Buffer.from(`${`${record},\n`.repeat(99)}0,\n`);
  yield Buffer.from('[');
  // By now the command has begun to read.
  before = youngBytes();
  for (let sent = 0; sent < CHUNKS; sent += 1) yield chunk;
  yield Buffer.from(`${record}]`);
}

function youngBytes(): number {
  return (
    getHeapSpaceStatistics().find(({ space_name }) => space_name === 'new_space')?.space_size ?? 0
  );
}

let before = 0;
let printed = 0;
const stdout = new Writable({
  write(chunk: Buffer, _encoding, done) {
    printed += chunk.length;
    done();
  },
});
keepHeapSmall();
const { stderr } = process;
const stdin = Readable.from(inventory());
const status = await runInventory(['validate', '-'], { stdin, stdout, stderr, env: {} });
process.stdout.write(JSON.stringify({ status, printed, before, after: youngBytes() }));
