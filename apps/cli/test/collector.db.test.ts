import assert from 'node:assert/strict';
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { createApiKeyStore, start, type Tables } from '@oselya/collector';
import {
  openFolder,
  deferCleanup,
  findUnusedUrl,
  startProcess,
  startServer,
  until,
} from '@oselya/testing';
import { openTestDatabase } from '@oselya/testing/database';
import { createLogger } from '@oselya/kit';
import { BIN, oselya } from './support/oselya.ts';

const folder = await openFolder();

const database = await openTestDatabase<Tables>();
const { db } = database;

/** Starts a collector without a worker. */
async function startCollector(overrides: Record<string, string> = {}): Promise<string> {
  const runningCollector = await start(
    {
      DATA_DIR: join(folder, 'var'),
      COLLECTOR_PORT: '0',
      COLLECTOR_WORKER: 'false',
      COLLECTOR_INGEST_PER_MINUTE: '0',
      EMBEDDING_DIMENSIONS: '64',
      MIN_FREE_DISK_MB: '0',
      ...overrides,
    },
    { database, log: createLogger({ level: 'silent', service: 'test' }) },
  );
  deferCleanup(() => runningCollector.close());
  return runningCollector.url;
}

const collector = await startCollector();

/** Starts `oselya ingest` in the test folder. */
function startIngest(
  args: string[],
  { url = collector, key = '', input = '', endsInput = true } = {},
) {
  const { child, ended } = startProcess([BIN, 'ingest', ...args], {
    cwd: folder,
    env: { COLLECTOR_URL: url, ...(key !== '' && { COLLECTOR_API_KEY: key }) },
  });
  child.stdin?.on('error', () => undefined).write(input);
  if (endsInput) child.stdin?.end();
  const exitPromise = ended.then(({ status, stdout, stderr }) => {
    return { status, lines: stdout.split('\n').slice(0, -1), stderr };
  });
  return { child, exit: exitPromise };
}

const ingest = (args: string[], options = {}) => startIngest(args, options).exit;

function write(name: string, content: string | Uint8Array): string {
  writeFileSync(join(folder, name), content);
  return name;
}

const listing = (index: number) => ({
  external_id: `flat-${index}`,
  description: `Продам двокімнатну квартиру у Львові, ${30 + (index % 70)} м².`,
});
const createJsonLines = (count: number) =>
  Array.from({ length: count }, (_, index) => `${JSON.stringify(listing(index))}\n`).join('');

async function listStored(source: string) {
  return db
    .selectFrom('raw_data')
    .select(['id', 'external_id', 'payload'])
    .where('source_slug', '=', source)
    .orderBy('id')
    .execute();
}

const countStored = async (source: string) => (await listStored(source)).length;

async function waitUntilStored(source: string, count: number): Promise<void> {
  await until(`${count} records of ${source}`, async () => (await countStored(source)) >= count);
}

test('records that failed or were invalid earlier are listed, with status 1', async () => {
  const args = ['-', '--format', 'jsonl', '--source', 'ended', '--load', 'of-today'];
  const input = createJsonLines(4);
  assert.equal((await ingest(args, { input })).status, 0);
  const ids = (await listStored('ended')).map(({ id }) => id);
  for (const [index, status] of (['completed', 'failed', 'invalid'] as const).entries()) {
    const rows = db.updateTable('raw_data').where('id', '=', ids[index] ?? 0);
    await rows.set({ status }).execute();
  }
  const { status, lines } = await ingest(args, { input });
  assert.equal(status, 1);
  const reasons = lines.slice(0, 2).map((line) => line.replace(/^line \d: /, ''));
  assert.deepEqual(reasons.toSorted(), [
    `was stored before (raw_id ${ids[1]}) and ended failed`,
    `was stored before (raw_id ${ids[2]}) and ended invalid`,
  ]);
  assert.equal(
    lines[2],
    'Read 4 records: 0 accepted, 2 already known, 2 known but not processed, 0 rejected, 0 failed.',
  );
  assert.match(lines[3] ?? '', /POST \/api\/v1\/admin\/raw\/retry puts them back/);
  assert.equal(await countStored('ended'), 4);
});

test('a run killed repeatedly stores each record once', async () => {
  const count = 500;
  const file = write('killed.jsonl', createJsonLines(count));
  for (const minStored of [1, 120, 300]) {
    const { child, exit } = startIngest([file, '--source', 'killed']);
    await waitUntilStored('killed', minStored);
    child.kill('SIGKILL');
    await exit;
    assert.ok((await countStored('killed')) < count, 'it was killed in the middle');
  }
  const countBefore = await countStored('killed');
  const lastRun = await ingest([file, '--source', 'killed']);
  assert.equal(lastRun.status, 0, lastRun.stderr);
  assert.deepEqual(lastRun.lines, [
    `Read ${count} records: ${count - countBefore} accepted, ${countBefore} already known, 0 rejected, 0 failed.`,
  ]);
  const ids = (await listStored('killed')).map(({ external_id: id }) => id);
  assert.equal(ids.length, count);
  assert.equal(new Set(ids).size, count);
});

test('Ctrl-C ends a waiting run, and the next one continues', async () => {
  const url = await startCollector({ COLLECTOR_INGEST_PER_MINUTE: '5' });
  const args = [write('slow.jsonl', createJsonLines(12)), '--source', 'slow'];
  const { child, exit } = startIngest(args, { url });
  child.stderr?.on('data', (chunk) => {
    if (String(chunk).includes('429')) child.kill('SIGINT');
  });
  const { status, lines, stderr } = await exit;
  assert.equal(status, 130);
  assert.match(stderr, /429: No more than 5 payloads .* COLLECTOR_INGEST_PER_MINUTE/);
  assert.match(lines[0] ?? '', /^Read \d+ records: 5 accepted, .* not sent\.$/);
  assert.equal(lines[1], 'Interrupted. Run the command again: it continues where it stopped.');
  assert.deepEqual((await ingest(args)).lines, [
    'Read 12 records: 7 accepted, 5 already known, 0 rejected, 0 failed.',
  ]);
});

test('Ctrl-C during the last records lets the load finish', async () => {
  const count = 3;
  const allSent = Promise.withResolvers<void>();
  let requests = 0;
  const { url } = await startServer(async () => {
    requests += 1;
    if (requests === count) {
      child.kill('SIGINT');
      // The responses wait 100 ms, in which the signal arrives.
      setTimeout(allSent.resolve, 100);
    }
    await allSent.promise;
    return { status: 202, body: { raw_id: 1, status: 'pending' } };
  });
  const file = write('last.jsonl', createJsonLines(count));
  const { child, exit } = startIngest([file, '--source', 'last'], { url });
  const { status, lines, stderr } = await exit;
  assert.equal(status, 0, stderr);
  assert.deepEqual(lines, ['Read 3 records: 3 accepted, 0 already known, 0 rejected, 0 failed.']);
});

test('CSV has mapped columns, lists, decimal commas and attributes', async () => {
  const csv = [
    '\uFEFFкод;опис;ціна, $;phones;стан',
    '"A;1";"Продам ""двушку""\nна Сихові";52 000,5;+380 00 1, +380 00 2;новий',
    'A-2;;5;;',
    'A-3;Здам;1,200;;',
    'A-4;Здам',
    '',
    'A-5;Здам;;;',
  ].join('\r\n');
  const args = ['--source', 'csv', '--map', 'external_id=код', '--map', 'description=опис'];
  const mappingArgs = [...args, '--map', 'price=ціна, $'];
  const { status, lines } = await ingest([write('a.csv', csv), ...mappingArgs, '--rejected']);
  assert.equal(status, 1);
  assert.deepEqual(lines, [
    "line 4: must have required property 'description'",
    'line 5: price must be number (1,200 may be 1200 or 1.2: write 1200, or at most two decimals)',
    'line 6: has 2 cells, but the header has 5',
    'Not fields of a payload, so kept in its attributes: стан',
    'Read 5 records: 2 accepted, 0 already known, 3 rejected, 0 failed.',
  ]);
  assert.equal(await countStored('csv'), 2);
  const rejectedLines = readFileSync(join(folder, 'a.csv.rejected.jsonl'), 'utf8')
    .trim()
    .split('\n');
  assert.deepEqual(
    rejectedLines.map((line) => (JSON.parse(line) as { line: number }).line),
    [4, 5, 6],
  );
});

test('--dry-run checks a file without a collector', async () => {
  const file = write('dry.jsonl', `${createJsonLines(3)}{"external_id": "x"}\n`);
  const args = [file, '--source', 'dry', '--dry-run'];
  const { status, lines } = await ingest(args, { url: await findUnusedUrl() });
  assert.equal(status, 1);
  assert.deepEqual(lines, [
    "line 4: must have required property 'description'",
    'Read 4 records: 3 can be sent, 1 cannot. Nothing was sent.',
  ]);
});

test('a missing API key is reported once, and a key of the scope works', async () => {
  const url = await startCollector({ COLLECTOR_AUTH: 'required' });
  // The pipe stays open without further data.
  const pipeOptions = { url, input: createJsonLines(3), endsInput: false };
  const runWithoutKey = await ingest(['-', '--format', 'jsonl', '--source', 'keys'], pipeOptions);
  assert.equal(runWithoutKey.status, 1);
  assert.match(
    runWithoutKey.stderr,
    /^oselya: the collector rejected the record \(401\): .*create one with npx oselya api-key create$/m,
  );
  assert.match(
    runWithoutKey.lines.at(-1) ?? '',
    /0 accepted, 0 already known, 0 rejected, 0 failed, \d+ not sent/,
  );
  const { key } = await createApiKeyStore(database).create({ name: 'loader', scopes: ['ingest'] });
  const file = write('keys.jsonl', createJsonLines(30));
  const runWithKey = await ingest([file, '--source', 'keys'], { url, key });
  assert.equal(runWithKey.status, 0, runWithKey.stderr);
  assert.equal((await listStored('keys')).length, 30);
});

test('an unreadable file is reported, and --rejected does not overwrite the file that is read', async () => {
  const content = 'external_id,description\n';
  const file = join(folder, write('input.csv', content));
  const cases: [args: string[], message: RegExp][] = [
    [[join(folder, 'none.csv')], /none\.csv cannot be read: there is no such file/],
    [[folder, '--format', 'csv'], /it is a folder/],
    [[file, '--rejected', `${folder}/./input.csv`], /is the file that is read/],
  ];
  for (const [args, message] of cases) {
    const { status, stderr } = await oselya(['ingest', ...args, '--source', 'wrong']);
    assert.equal(status, 1, stderr);
    assert.match(stderr, message);
    assert.equal(stderr.trim().split('\n').length, 1, stderr);
    assert.equal(readFileSync(file, 'utf8'), content);
  }
});

test('a JSON array on one line keeps repeated and changed records', async () => {
  const [firstListing, secondListing] = [listing(1), listing(2)];
  const file = write(
    'array.json',
    JSON.stringify([firstListing, { ...firstListing, price: 5 }, secondListing, 7, firstListing]),
  );
  const { status, lines, stderr } = await ingest([file, '--source', 'array']);
  assert.equal(status, 1, stderr);
  assert.deepEqual(lines, [
    'record 4 (line 1): is not a JSON object',
    'Read 5 records: 4 accepted, 0 already known, 1 rejected, 0 failed.',
  ]);
  const prices = (await listStored('array'))
    .filter(({ external_id: id }) => id === firstListing.external_id)
    .map(({ payload }) => payload['price']);
  assert.deepEqual(prices, [undefined, 5, undefined]);
});
