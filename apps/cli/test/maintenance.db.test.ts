import assert from 'node:assert/strict';
import { mkdirSync, readdirSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { migrateDatabase, type Tables } from '@oselya/assistant';
import { start } from '@oselya/collector';
import { connect } from '@oselya/db';
import { openFolder, startProcess, until } from '@oselya/testing';
import { fillDataFolder, openTestDatabase } from '@oselya/testing/database';
import {
  createConstantHandler,
  LISTING,
  createConstantVector,
  startModelServer,
} from '@oselya/model/testing';
import { BIN, oselya } from './support/oselya.ts';

const folder = await openFolder();

const { url } = await openTestDatabase();
const env = {
  DATA_DIR: join(folder, 'var'),
  EMBEDDING_DIMENSIONS: '16',
  MIN_FREE_DISK_MB: '0',
  ...(url === undefined ? {} : { DATABASE_URL: url }),
};
if (url === undefined) await fillDataFolder(env.DATA_DIR);
const LISTING_COUNT = 70;

/** Runs a function while a collector uses the database. */
async function useCollector<Result>(
  work: (address: string) => Promise<Result>,
  extraEnv: Record<string, string> = {},
): Promise<Result> {
  const runningCollector = await start({
    ...env,
    ...extraEnv,
    COLLECTOR_PORT: '0',
    COLLECTOR_INGEST_PER_MINUTE: '0',
    LOG_LEVEL: 'silent',
  });
  try {
    return await work(`${runningCollector.url}/api/v1`);
  } finally {
    await runningCollector.close();
  }
}

async function fetchJson<Shape>(address: string, init?: RequestInit): Promise<Shape> {
  return (await fetch(address, init)).json() as Promise<Shape>;
}

/** Waits until all payloads are completed. */
async function waitUntilCompleted(api: string): Promise<void> {
  await until('all payloads', async () => {
    const { counts } = await fetchJson<{ counts: { completed: number } }>(`${api}/admin/queue`);
    return counts.completed === LISTING_COUNT;
  });
}

before(() =>
  useCollector(async (api) => {
    for (let index = 0; index < LISTING_COUNT; index += 1) {
      await fetchJson(`${api}/ingest`, {
        method: 'POST',
        headers: { 'content-type': 'application/json' },
        body: JSON.stringify({
          source_slug: 'doshka',
          external_id: `flat-${index}`,
          description: `Продам двокімнатну квартиру у Львові, ${40 + index} м², 3 поверх з 5.`,
        }),
      });
    }
    await waitUntilCompleted(api);
  }),
);

const runHere = (args: string[]) => oselya(args, env);

/** Starts a model server that gives every listing the same rooms and vector. */
async function startServer({ rooms, model }: { rooms: number; model: string }) {
  const behavior = { isUp: true, requestCount: 0, answers: (_path: string): boolean => true };
  const listing = { ...LISTING, rooms };
  const answer = createConstantHandler({ listing, model, createVector: createConstantVector(16) });
  const { url: address, close } = await startModelServer((request) => {
    behavior.requestCount += 1;
    if (!behavior.answers(request.path)) return 'silence';
    return behavior.isUp
      ? answer(request)
      : { status: 404, body: { error: { message: 'no such model' } } };
  });
  after(close);
  const variables = {
    MODEL_MODE: 'openai',
    MODEL_BASE_URL: address,
    MODEL_CHAT: model,
    MODEL_EMBEDDING: 'ones',
  };
  return { behavior, variables };
}

/** Starts a command in a separate process, so that it can use a model server of this process. */
function run(args: string[], extraEnv: Record<string, string>) {
  const options = { cwd: folder, env: { ...env, ...extraEnv } };
  const { child, ended } = startProcess([BIN, ...args], options);
  const toLines = (stdout: string) => stdout.split('\n').slice(0, -1);
  return { child, ended: ended.then((result) => ({ ...result, lines: toLines(result.stdout) })) };
}

const server = await startServer({ rooms: 3, model: 'three-rooms' });

/** Asserts that a command warned about the embedded database if and only if the tests use it. */
function assertWarned({ stderr }: { stderr: string }): void {
  const warning = `DATABASE_URL is not set: the embedded database in ${env.DATA_DIR} is used.\n`;
  assert.equal(stderr.includes(warning), url === undefined, stderr);
}

test('backfill-embeddings handles another model, a rejecting server and Ctrl-C, and continues', async () => {
  const upToDateRun = await runHere(['backfill-embeddings']);
  assert.deepEqual(upToDateRun.lines, [
    `0 of ${LISTING_COUNT} listings were embedded, ${LISTING_COUNT} were up to date.`,
  ]);
  assertWarned(upToDateRun);
  const dryRun = run(['backfill-embeddings', '--dry-run'], server.variables);
  const { status, lines, stderr } = await dryRun.ended;
  assert.equal(status, 0, stderr);
  assert.deepEqual(lines, [
    `${LISTING_COUNT} of ${LISTING_COUNT} listings need an embedding. Nothing was changed.`,
  ]);
  assert.equal(server.behavior.requestCount, 0);

  server.behavior.isUp = false;
  const rejectedRun = await run(['backfill-embeddings'], server.variables).ended;
  assert.equal(rejectedRun.status, 1);
  assert.match(
    rejectedRun.stderr,
    /oselya: the model failed after 0 listings: .*no such model.*continues/,
  );
  server.behavior.isUp = true;

  server.behavior.requestCount = 0;
  const stopped = run(['backfill-embeddings'], server.variables);
  server.behavior.answers = () => server.behavior.requestCount < 2 || !stopped.child.kill('SIGINT');
  const interruptedRun = await stopped.ended;
  server.behavior.answers = () => true;
  assert.equal(interruptedRun.status, 130, interruptedRun.stderr);
  assert.match(
    interruptedRun.lines.join('\n'),
    /^32 of 32 listings were embedded, 0 were up to date.\nInterrupted/,
  );

  const remainingRun = await run(['backfill-embeddings'], server.variables).ended;
  assert.equal(remainingRun.status, 0, remainingRun.stderr);
  assert.deepEqual(remainingRun.lines, [
    `${LISTING_COUNT - 32} of ${LISTING_COUNT} listings were embedded, 32 were up to date.`,
  ]);
  assert.match(remainingRun.stderr, /^70 of 70 listings: 38 embedded$/m);
});

/** Returns the number in the first matching line. */
function findNumber(lines: readonly string[], pattern: RegExp): number {
  const [value] = lines.flatMap((line) => pattern.exec(line)?.[1] ?? []);
  assert.ok(value, lines.join('\n'));
  return Number(value);
}

test('reprocess --pictures without images changes nothing', async () => {
  const { status, lines, stderr } = await runHere(['reprocess', '--pictures', '--yes']);
  assertWarned({ stderr });
  assert.equal(status, 0, stderr);
  assert.deepEqual(lines, [
    '0 listings have images that another prompt or model described, or none.',
    'Nothing was changed.',
  ]);
});

test('reprocess previews changes, and continues after a failed model and Ctrl-C', async () => {
  const dryRun = run(['reprocess', '--dry-run', '--verbose', '--limit', '5'], server.variables);
  const { status, lines, stderr } = await dryRun.ended;
  assert.equal(status, 0, stderr);
  assert.ok(
    lines.some((line) => /^listing \d+: rooms: 2 → 3$/.test(line)),
    lines.join('\n'),
  );
  assert.ok(lines.includes('5 listings were read again: 5 would change.'));
  assert.ok(lines.includes('  rooms: 5'));
  assert.equal(lines.at(-1), 'Nothing was changed.');
  assert.match(stderr, /^1 of 5 listings: 1 would change$/m);
  assert.match(stderr, /^5 of 5 listings: 5 would change$/m);

  server.behavior.isUp = false;
  server.behavior.requestCount = 0;
  const rejectedRun = await run(['reprocess', '--yes'], server.variables).ended;
  server.behavior.isUp = true;
  assert.equal(rejectedRun.status, 1);
  assert.match(rejectedRun.stderr, /oselya: the model failed: .*no such model.*Fix it/);
  assert.ok(
    server.behavior.requestCount <= 4,
    `the slots, not all listings: ${server.behavior.requestCount}`,
  );

  server.behavior.requestCount = 0;
  let readCount = 0;
  const runningCommand = run(['reprocess', '--yes'], server.variables);
  server.behavior.answers = (path) => {
    if (path.endsWith('/embeddings')) return true;
    readCount += 1;
    // A second Ctrl-C would end the process immediately.
    if (readCount === 31) runningCommand.child.kill('SIGINT');
    return readCount <= 30;
  };
  const stopped = await runningCommand.ended;
  server.behavior.answers = () => true;
  assert.equal(stopped.status, 130, stopped.stderr);
  const doneCount = findNumber(stopped.lines, /^(\d+) listings were read again/);
  assert.ok(doneCount > 0 && doneCount < LISTING_COUNT, stopped.lines.join('\n'));
  assert.equal(findNumber(stopped.lines, /^(\d+) listings were written/), doneCount);
  const lastId = findNumber(
    stopped.lines,
    /^Interrupted\. Run the command again with --after (\d+) to continue\.$/,
  );

  const continueArgs = ['reprocess', '--yes', '--after', String(lastId)];
  const remainingRun = await run(continueArgs, server.variables).ended;
  assert.equal(remainingRun.status, 0, remainingRun.stderr);
  assert.equal(
    findNumber(remainingRun.lines, /^(\d+) listings were read again/),
    LISTING_COUNT - doneCount,
  );
  assert.equal(
    findNumber(remainingRun.lines, /^(\d+) listings were written/),
    LISTING_COUNT - doneCount,
  );
  const slotCount = 4;
  assert.ok(
    server.behavior.requestCount <= 2 * LISTING_COUNT + 3 * slotCount,
    `one reading and at most one embedding each, and what was on its way: ${server.behavior.requestCount}`,
  );

  const repeatedRun = await run(['reprocess', '--yes', '--outdated'], server.variables).ended;
  assert.equal(repeatedRun.lines[0], '0 listings were read again: 0 would change.');

  await useCollector(async (api) => {
    const listing = await fetchJson<{ rooms: number; provenance: { model: string } }>(
      `${api}/listings/1`,
    );
    assert.equal(listing.rooms, 3);
    assert.equal(listing.provenance.model, 'three-rooms');
  });
});

test('a killed reprocess leaves no file, and the next run completes it', async () => {
  const fourRoomsServer = await startServer({ rooms: 4, model: 'four-rooms' });
  const temporaryFolder = join(folder, 'temporary');
  mkdirSync(temporaryFolder);
  const variables = {
    ...fourRoomsServer.variables,
    TMPDIR: temporaryFolder,
    COLLECTOR_LEASE_SECONDS: '5',
  };
  const outdatedArgs = ['reprocess', '--yes', '--outdated'];

  const killedRun = run(outdatedArgs, variables);
  let embeddingCount = 0;
  fourRoomsServer.behavior.answers = (path) => {
    if (path.endsWith('/embeddings')) embeddingCount += 1;
    return embeddingCount <= 5 || !killedRun.child.kill('SIGKILL');
  };
  assert.equal((await killedRun.ended).status, null);
  fourRoomsServer.behavior.answers = () => true;
  const remainingFiles = readdirSync(temporaryFolder).filter((name) => name.startsWith('oselya'));
  assert.deepEqual(remainingFiles, []);

  // A worker reclaims the jobs of the killed run, but extracts nothing from unchanged payloads.
  await useCollector(waitUntilCompleted, variables);
  const remainingRun = await run(outdatedArgs, variables).ended;
  assert.equal(remainingRun.status, 0, remainingRun.stderr);
  const writtenCount = findNumber(remainingRun.lines, /^(\d+) listings were written/);
  assert.ok(writtenCount > 0, remainingRun.lines.join('\n'));

  await useCollector(async (api) => {
    await waitUntilCompleted(api);
    const { items } = await fetchJson<{
      items: { listing: { listing_id: number; rooms: number } }[];
    }>(`${api}/search/fulltext`, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify({ query: 'квартиру', limit: 100 }),
    });
    assert.equal(items.length, LISTING_COUNT);
    for (const { listing } of items) {
      const history = await fetchJson<{ changes: { rooms?: { from: number; to: number } } }[]>(
        `${api}/listings/${listing.listing_id}/history`,
      );
      const rooms = history.flatMap(({ changes }) => changes.rooms?.to ?? []);
      assert.deepEqual([listing.rooms, rooms], [4, [4, 3]], 'each change is made once');
    }
  });
});

test('legacy data is assigned after a dry run, and only once', async () => {
  const database = await connect<Tables>({ url, dataDir: env.DATA_DIR });
  try {
    await migrateDatabase({}, database);
    const { db } = database;
    await db
      .insertInto('svc_users')
      .values({ id: 'u-1', email: 'olena@example.test', display_name: null })
      .execute();
    const legacy = { user_id: null, source_session_id: null, category: 'home', value: 'old' };
    const [older, newer] = [new Date('2026-01-01'), new Date('2026-01-02')];
    await db
      .insertInto('memory_facts')
      .values([
        { ...legacy, key: 'district', updated_at: older },
        { ...legacy, key: 'rooms', updated_at: newer },
        { ...legacy, key: 'pets', updated_at: newer },
        { ...legacy, key: 'garden', updated_at: older, category: null, value: null },
        { ...legacy, key: 'garden', updated_at: newer, user_id: 'u-1', category: null },
        { ...legacy, key: 'district', updated_at: newer, user_id: 'u-1', value: 'own' },
        { ...legacy, key: 'rooms', updated_at: older, user_id: 'u-1', value: 'own' },
      ])
      .execute();
    await db
      .insertInto('conversation_sessions')
      .values({ user_id: null, profile_id: null, name: 'An old one' })
      .execute();
    await db
      .insertInto('memory_summaries')
      .values({ user_id: null, summary: 'Has a dog.' })
      .execute();
  } finally {
    await database.close();
  }

  const dryRun = await runHere(['assign-legacy', 'u-1', '--dry-run']);
  assert.equal(dryRun.status, 0, dryRun.stderr);

  const assignment = await runHere(['assign-legacy', 'u-1']);
  assert.equal(assignment.status, 0, assignment.stderr);
  assert.deepEqual(assignment.lines.slice(1), dryRun.lines.slice(1));
  assert.deepEqual(assignment.lines, [
    'This is now the data of "u-1".',
    'sessions assigned: 1',
    'facts assigned: 2',
    '  replace an older value of the user: 1',
    '    home / rooms',
    "  deleted, because the user's own value is newer: 2",
    '     / garden',
    '    home / district',
    'summary: assigned',
  ]);

  const repeatedRun = await runHere(['assign-legacy', 'u-1']);
  assert.equal(repeatedRun.status, 0, repeatedRun.stderr);
  assert.deepEqual(repeatedRun.lines, [
    'Nothing to do: all sessions and all memory have an owner.',
  ]);
});

test('a user who never signed in cannot become the owner', async () => {
  const { status, lines, stderr } = await runHere(['assign-legacy', 'u-9\u202E']);
  assert.equal(status, 1);
  assert.deepEqual(lines, []);
  assert.equal(
    stderr.replace(/^DATABASE_URL is not set: the embedded database in .+ is used\.\n/, ''),
    'oselya: there is no user "u-9": the new owner has to sign in once first\n',
  );
});
