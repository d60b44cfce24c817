import assert from 'node:assert/strict';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, test } from 'node:test';
import { createImage, startServer } from '../support/images.ts';
import { openSocket, until } from '@oselya/testing';
import {
  type CollectorProcess,
  forkCollector,
  formOf,
  sendForm,
  requestHead,
} from '../support/collector.ts';
import {
  countConnections,
  named,
  openDatabase,
  temporaryFiles,
  payloadOf,
} from '../support/pipeline.ts';

// On PostgreSQL the processes share the test's database; the embedded one is in their data folder.
const { url: databaseUrl, db } = await openDatabase();
const folder = await mkdtemp(join(tmpdir(), 'oselya-killed-'));
after(() => rm(folder, { recursive: true, force: true }));

/** A model server that never answers and counts its requests. */
const silent = await startServer(({ url = '' }) => {
  // The probe at the start requests embeddings.
  if (url.endsWith('/chat/completions')) asked += 1;
});
let asked = 0;

/** The connection name of the processes. */
const NAME = 'collector-to-be-killed';

/** Counts the processes' connections; the embedded database has none. */
async function databaseConnections(): Promise<number> {
  return databaseUrl === undefined ? 0 : countConnections(db, NAME);
}

/** Waits until all resources of a killed process are free. */
const untilClosed = (server: Awaited<ReturnType<typeof startServer>>) =>
  until('its connections to be closed', async () => {
    return (await server.connections()) === 0 && (await databaseConnections()) === 0;
  });

const collectors: CollectorProcess[] = [];

async function start(env: Record<string, string> = {}): Promise<CollectorProcess> {
  const collector = await forkCollector({
    ...(databaseUrl === undefined ? {} : { DATABASE_URL: named(databaseUrl, NAME) }),
    DATA_DIR: folder,
    COLLECTOR_LEASE_SECONDS: '5',
    ...env,
  });
  collectors.push(collector);
  return collector;
}

const killAll = () => Promise.all(collectors.map(({ kill }) => kill()));

const TYPE = 'multipart/form-data; boundary=b';

test('A collector killed during uploads and processing leaves no payload undecided', async (t) => {
  // The database must close after all connections.
  t.after(killAll);
  const slow = await start({
    MODEL_MODE: 'openai',
    MODEL_BASE_URL: `${silent.url}/v1`,
    MODEL_CHAT: 'm',
    MODEL_EMBEDDING: 'e',
  });
  const file = { name: 'a.png', bytes: Uint8Array.from(await createImage('png')) };
  const [uploads, jobs] = [2, 2];

  // Partial uploads, and payloads that wait for the model.
  for (let count = 0; count < uploads; count += 1) {
    const socket = await openSocket(slow.url);
    socket.on('error', () => undefined);
    socket.write(
      requestHead('/api/v1/ingest/with-images', {
        'content-type': TYPE,
        'content-length': 9_000_000,
      }) +
        `--b\r\nContent-Disposition: form-data; name="images"; filename="half.png"\r\n\r\n${'x'.repeat(100_000)}`,
    );
  }
  const sent = Array.from({ length: jobs }, () => payloadOf());
  const answers = sent.map((payload) =>
    sendForm(slow.url, formOf(payload, [file])).then(
      () => 'answered',
      () => 'cut',
    ),
  );
  await until('the jobs at the model', () => asked === jobs);
  await until('the files', async () => (await temporaryFiles(folder)).length === uploads + jobs);
  await slow.kill();
  assert.deepEqual(await Promise.all(answers), Array(jobs).fill('cut'));
  assert.equal((await temporaryFiles(folder)).length, uploads + jobs);
  await untilClosed(silent);

  const again = await start();
  assert.deepEqual(await temporaryFiles(folder), [], 'leftovers are removed by the start');
  const ask = async (path: string): Promise<unknown> => (await fetch(again.url + path)).json();
  type Raw = { status: string; error: { code: string; message: string } };
  const ids = sent.map((_, index) => index + 1);
  for (const rawId of ids) {
    const raw = await until('the rescue', async () => {
      const record = (await ask(`/api/v1/raw/${rawId}`)) as Raw;
      return record.status !== 'processing' && record;
    });
    assert.deepEqual([raw.status, raw.error.code], ['failed', 'lease_lost']);
    assert.match(raw.error.message, /Send it again/);
    const retry = await fetch(`${again.url}/api/v1/admin/raw/${rawId}/retry`, { method: 'POST' });
    assert.equal(retry.status, 409);
  }
  // Nothing of the aborted uploads is stored.
  assert.equal((await fetch(`${again.url}/api/v1/raw/${ids.length + 1}`)).status, 404);
  for (const payload of sent) {
    const { status, body } = await sendForm(again.url, formOf(payload, [file]));
    assert.equal(status, 200, JSON.stringify(body));
  }
  assert.deepEqual(await temporaryFiles(folder), []);
  await again.kill();
});
