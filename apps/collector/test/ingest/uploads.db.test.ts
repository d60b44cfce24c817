import assert from 'node:assert/strict';
import { afterEach, test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { createImage } from '../support/images.ts';
import { openFolder, openSocket, until } from '@oselya/testing';
import {
  startCollector,
  FORM_TYPE,
  encodeForm,
  createImagePart as imagePart,
  createMetadataPart,
  createForm,
  sendForm,
  encodeRequestHead,
} from '../support/collector.ts';
import {
  listTemporaryFiles,
  startModelServer,
  createPayload,
  createModelEnv,
} from '../support/pipeline.ts';
import { openUploads } from './uploads.ts';

const PATH = '/api/v1/ingest/with-images';
const KIBIBYTE = 1024;
const { database, db, folder, collector, count, waitUntilResourcesAreFree } = await openUploads();
// Additional collectors use a separate folder, so that tests count the temporary files of one collector only.
const otherFolder = await openFolder();
const settings = {
  DATA_DIR: otherFolder,
  COLLECTOR_WORKER: 'false',
  COLLECTOR_INGEST_PER_MINUTE: '0',
};
const bytes = await createImage('png', { colour: 'orchid' });
const image = (name: string, content: Buffer | string = bytes) => imagePart(name, content);

const waitUntilNoTemporaryFiles = (dataDir = folder) =>
  until('no temporary file', async () => (await listTemporaryFiles(dataDir)).length === 0);

afterEach(async () => {
  await waitUntilResourcesAreFree();
  assert.equal((await collector.get('/health/live')).status, 200);
});

test('A declared size above the limit is rejected before the body is sent', async () => {
  const socket = await openSocket(collector.url);
  const responseText = new Promise<string>((resolve) => {
    socket.once('data', (chunk) => resolve(chunk.toString()));
  });
  socket.write(
    encodeRequestHead(PATH, {
      'content-type': FORM_TYPE,
      'content-length': 513 * KIBIBYTE * KIBIBYTE,
    }),
  );
  const response = await responseText;
  assert.match(response, /^HTTP\/1\.1 413/);
  assert.match(response, /larger than 512 MiB/);
  socket.destroy();
});

test('A disconnected client leaves no file, record or descriptor', async () => {
  const records = await count();
  const formStart = encodeForm(
    [createMetadataPart(), image('big.png', Buffer.alloc(200 * KIBIBYTE))],
    {
      end: '',
    },
  );
  const lengths: Record<string, string | number>[] = [
    { 'content-length': 10_000 * KIBIBYTE },
    { 'transfer-encoding': 'chunked' },
  ];
  for (const headers of lengths) {
    const socket = await openSocket(collector.url);
    socket.on('error', () => undefined);
    socket.write(encodeRequestHead(PATH, { 'content-type': FORM_TYPE, ...headers }));
    if ('transfer-encoding' in headers) socket.write(`${formStart.length.toString(16)}\r\n`);
    // Omit the last bytes to keep the file open.
    socket.write(formStart.subarray(0, formStart.length - 2));
    await until('a temporary file', async () => (await listTemporaryFiles(folder)).length === 1);
    socket.destroy();
    await waitUntilNoTemporaryFiles();
  }
  await waitUntilResourcesAreFree();
  assert.equal(await count(), records);
});

test('COLLECTOR_UPLOADS limits the received forms in progress, and the others wait', async () => {
  await using server = await startModelServer();
  const gate = Promise.withResolvers<void>();
  let [activeRequests, maxActiveRequests] = [0, 0];
  server.state.delay = async () => {
    activeRequests += 1;
    maxActiveRequests = Math.max(maxActiveRequests, activeRequests);
    await gate.promise;
    activeRequests -= 1;
  };
  await using limitedCollector = await startCollector(database, {
    ...settings,
    COLLECTOR_UPLOADS: '1',
    ...createModelEnv(server.url),
  });
  const forms = [1, 2, 3].map(() =>
    createForm(createPayload(), [{ name: 'a.png', bytes: Uint8Array.from(bytes) }]),
  );
  const responsePromises = forms.map((form) => sendForm(limitedCollector.url, form));
  await until(
    'all to be received',
    async () => (await listTemporaryFiles(otherFolder)).length === 3,
  );
  await until('a request to the model', () => activeRequests > 0);
  // Long enough for a second form to start if there were no limit.
  await sleep(200);
  gate.resolve();
  const statuses = (await Promise.all(responsePromises)).map(({ status }) => status);
  assert.deepEqual([statuses, maxActiveRequests], [[200, 200, 200], 1]);
});

test('A shutdown during an upload or processing leaves no payload undecided', async () => {
  const server = await startModelServer();
  await using stopping = await startCollector(database, {
    ...settings,
    ...createModelEnv(server.url),
  });
  const uploadSocket = await openSocket(stopping.url);
  uploadSocket.on('error', () => undefined);
  const formStart = encodeForm([createMetadataPart(), image('slow.png', bytes)], { end: '' });
  const headers = { 'content-type': FORM_TYPE, 'content-length': formStart.length + 100 };
  uploadSocket.write(encodeRequestHead(PATH, headers));
  uploadSocket.write(formStart);
  await until('a temporary file', async () => (await listTemporaryFiles(otherFolder)).length === 1);
  const processing = sendForm(stopping.url, createForm(createPayload(), []));
  await until('a request to the model', () => server.state.requestCount > 0);
  const closePromise = stopping.close();
  assert.equal((await processing).status, 200);
  uploadSocket.destroy();
  await closePromise;
  const unfinishedRows = await db
    .selectFrom('raw_data')
    .select('id')
    .where('status', 'in', ['pending', 'processing'])
    .execute();
  assert.deepEqual(unfinishedRows, []);
  await server.close();
});
