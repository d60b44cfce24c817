// Validates 400,000 records, 160 MB in all, and prints what the memory was at its highest. The test
// runs it with a heap that holds a fraction of the records.
import { validateInventory } from '@oselya/inventory';
import { VALID_RECORD } from './findings.ts';

const RECORDS = 400_000;
const RECORDS_PER_CHUNK = 250;

let peakBytes = 0;

async function* inventory() {
  const record = JSON.stringify({ ...VALID_RECORD, notes: 'x'.repeat(250) });
  const chunk = Buffer.from(`${record},`.repeat(RECORDS_PER_CHUNK));
  yield Buffer.from('[');
  for (let sent = 0; sent < RECORDS; sent += RECORDS_PER_CHUNK) {
    yield chunk;
    const { heapUsed, external } = process.memoryUsage();
    peakBytes = Math.max(peakBytes, heapUsed + external);
  }
  yield Buffer.from(`${record}]`);
}

const validation = validateInventory(inventory());
let step = await validation.next();
let findings = 0;
while (!step.done) {
  findings += 1;
  step = await validation.next();
}
process.stdout.write(JSON.stringify({ records: step.value.records, findings, peakBytes }));
