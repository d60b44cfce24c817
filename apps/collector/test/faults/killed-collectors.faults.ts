import assert from 'node:assert/strict';
import { test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { openFolder, openSocket, until, getRepetitions } from '@oselya/testing';
import { sql } from 'kysely';
import {
  type CollectorProcess,
  forkCollector,
  createForm,
  encodeRequestHead,
  sendForm,
} from '../support/collector.ts';
import { createImage, startServer } from '../support/images.ts';
import {
  countConnections,
  setApplicationName,
  openDatabase,
  createPayload,
  listTemporaryFiles,
  waitUntilResourcesAreFree,
  createModelEnv,
} from '../support/pipeline.ts';
import { createRandom, getKey, getPrice, startIngest } from './load.ts';

const CONNECTION_NAME = 'collector-to-be-killed';
const SOURCE = 'killed';
const COLLECTOR_COUNT = 2;
const KILLS_PER_COLLECTOR = getRepetitions({ soak: 8, ci: 1 });
const SENDER_COUNT = 8;
/** Maximum random delay before a kill. */
const MAX_WORK_MS = 200;

// With PostgreSQL, the collectors use the test's database. Otherwise they embed a database in their data folder.
const { db, url: databaseUrl } = await openDatabase();
const folder = await openFolder();
const random = createRandom(20_261_122);

const countOpenConnections = async (): Promise<number> =>
  databaseUrl === undefined ? 0 : countConnections(db, CONNECTION_NAME);

/** Model server that never responds. */
const silentModelServer = await startServer(({ url = '' }) => {
  // The startup probe requests embeddings, which do not count as extractions.
  if (url.endsWith('/chat/completions')) extractionCount += 1;
});
let extractionCount = 0;

const collectors: CollectorProcess[] = [];
const killAll = () => Promise.all(collectors.map(({ kill }) => kill()));

async function start(env: Record<string, string> = {}): Promise<CollectorProcess> {
  const collector = await forkCollector({
    ...(databaseUrl !== undefined && {
      DATABASE_URL: setApplicationName(databaseUrl, CONNECTION_NAME),
    }),
    DATA_DIR: folder,
    COLLECTOR_LEASE_SECONDS: '5',
    COLLECTOR_INGEST_PER_MINUTE: '0',
    ...env,
  });
  collectors.push(collector);
  return collector;
}

test('A collector killed during uploads and processing leaves no payload undecided', async (t) => {
  t.after(killAll);
  const killedCollector = await start({
    ...createModelEnv(`${silentModelServer.url}/v1`),
  });
  const file = { name: 'a.png', bytes: Uint8Array.from(await createImage('png')) };
  const [uploadCount, jobCount] = [2, 2];
  const partialForm = `--b\r\nContent-Disposition: form-data; name="images"; filename="half.png"\r\n\r\n${'x'.repeat(100_000)}`;
  const headers = {
    'content-type': 'multipart/form-data; boundary=b',
    'content-length': 9_000_000,
  };
  for (let count = 0; count < uploadCount; count += 1) {
    const socket = await openSocket(killedCollector.url);
    socket.on('error', () => undefined);
    socket.write(encodeRequestHead('/api/v1/ingest/with-images', headers) + partialForm);
  }
  const payloads = Array.from({ length: jobCount }, () => createPayload());
  const responsesPromise = Promise.allSettled(
    payloads.map((payload) => sendForm(killedCollector.url, createForm(payload, [file]))),
  );
  await until('the jobs at the model', () => extractionCount === jobCount);
  await until(
    'the files',
    async () => (await listTemporaryFiles(folder)).length === uploadCount + jobCount,
  );
  await killedCollector.kill();
  assert.ok((await responsesPromise).every(({ status }) => status === 'rejected'));
  assert.equal((await listTemporaryFiles(folder)).length, uploadCount + jobCount);
  await waitUntilResourcesAreFree({
    servers: [silentModelServer, { connections: countOpenConnections }],
  });

  const restartedCollector = await start();
  assert.deepEqual(await listTemporaryFiles(folder), [], 'startup removes leftover files');
  const get = (path: string) => fetch(`${restartedCollector.url}/api/v1/${path}`);
  type RawRecord = { status: string; error: { code: string; message: string } };
  const rawIds = payloads.map((_, index) => index + 1);
  for (const rawId of rawIds) {
    const rawRecord = await until('the rescue', async () => {
      const record = (await (await get(`raw/${rawId}`)).json()) as RawRecord;
      return record.status !== 'processing' && record;
    });
    assert.deepEqual([rawRecord.status, rawRecord.error.code], ['failed', 'lease_lost']);
    assert.match(rawRecord.error.message, /[Ss]end the payload again/);
  }
  assert.equal(
    (await get(`raw/${rawIds.length + 1}`)).status,
    404,
    'aborted uploads are not stored',
  );
  for (const payload of payloads) {
    assert.equal((await sendForm(restartedCollector.url, createForm(payload, [file]))).status, 200);
  }
  assert.deepEqual(await listTemporaryFiles(folder), []);
  t.diagnostic(
    `1 kill, ${jobCount} stored and failed, ${uploadCount} not stored, ${jobCount} sent again`,
  );
});

// The test needs a database that outlives the killed processes.
if (databaseUrl !== undefined) {
  test('Payloads accepted by killed collectors are stored once, and the others can be sent again', async (t) => {
    t.after(killAll);
    const runningCollectors = await Promise.all(
      Array.from({ length: COLLECTOR_COUNT }, () => start({ COLLECTOR_WORKER: 'false' })),
    );
    const urls = runningCollectors.map(({ url }) => url);
    const acceptanceCallbacks = new Map<string, () => void>();
    const waitForAcceptance = (url = '') =>
      new Promise<void>((resolve) => acceptanceCallbacks.set(url, resolve));
    let replayCount = 0;
    const ingest = startIngest(SOURCE, {
      urls,
      connections: SENDER_COUNT,
      onAccepted(url, headers) {
        if (headers.has('idempotent-replayed')) replayCount += 1;
        acceptanceCallbacks.get(url)?.();
        acceptanceCallbacks.delete(url);
      },
    });

    async function killRepeatedly(index: number): Promise<void> {
      for (let kill = 0; kill < KILLS_PER_COLLECTOR; kill += 1) {
        // Every second kill immediately follows a response, while other requests are in progress.
        await waitForAcceptance(urls[index]);
        if (kill % 2 === 0) await sleep(random() * MAX_WORK_MS);
        const killPromise = runningCollectors[index]?.kill();
        urls[index] = '';
        await killPromise;
        const collector = await start({ COLLECTOR_WORKER: 'false' });
        runningCollectors[index] = collector;
        urls[index] = collector.url;
      }
    }
    await Promise.all(urls.map((_, index) => killRepeatedly(index)));
    await Promise.all(urls.map(waitForAcceptance));
    const { acceptedIds, unansweredCount, unavailableCount, unexpectedResponses } =
      await ingest.stop();
    await killAll();

    assert.deepEqual([unexpectedResponses, unavailableCount], [[], 0]);
    assert.ok(unansweredCount > 0, 'requests were cut off');
    const { rows } = await sql<{ key: string; id: number; price: number; isNew: boolean }>`
      select idempotency_key as key, id, (payload ->> 'price')::float as price,
        status = 'pending' and attempts = 0 as "isNew"
      from raw_data where source_slug = ${SOURCE}`.execute(db);
    assert.ok(rows.every(({ isNew }) => isNew));
    assert.deepEqual(new Map(rows.map(({ key, id }) => [key, id])), acceptedIds);
    assert.equal(rows.length, acceptedIds.size, 'one record for each key');
    const sentNumbers = Array.from(
      { length: acceptedIds.size },
      (_, sequenceNumber) => sequenceNumber + 1,
    );
    assert.deepEqual(
      new Map(rows.map(({ key, price }) => [key, price])),
      new Map(
        sentNumbers.map((sequenceNumber) => [
          getKey(SOURCE, sequenceNumber),
          getPrice(sequenceNumber),
        ]),
      ),
    );
    await waitUntilResourcesAreFree({ servers: [{ connections: countOpenConnections }], folder });
    t.diagnostic(
      `${COLLECTOR_COUNT * KILLS_PER_COLLECTOR} kills, ${acceptedIds.size} accepted and stored, 0 lost, 0 doubled, ` +
        `${replayCount} stored before without a response, ${unansweredCount} requests without a response`,
    );
  });
}
