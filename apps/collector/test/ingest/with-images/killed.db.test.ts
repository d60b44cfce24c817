import assert from 'node:assert/strict';
import { type ChildProcess, fork } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, rm } from 'node:fs/promises';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, test } from 'node:test';
import { picture } from '../../images/pictures.ts';
import { DIMENSIONS, openDatabase } from '../../support/database.ts';
import { formOf, sendForm, temporaryFiles } from '../../support/form.ts';
import { payloadOf } from '../../support/payload.ts';
import { openSocket, requestHead } from '../../support/raw-http.ts';
import { until } from '../../support/until.ts';

// On PostgreSQL the processes share the test's database; the embedded one is in their data folder.
const { url: databaseUrl } = await openDatabase();
const folder = await mkdtemp(join(tmpdir(), 'oselya-killed-'));
after(() => rm(folder, { recursive: true, force: true }));

/** A model server that never answers, and counts who asks. */
const silent = createServer(() => (asked += 1));
let asked = 0;
await new Promise<void>((resolve) => {
  silent.listen(0, '127.0.0.1', resolve);
});
after(() => {
  silent.close();
  silent.closeAllConnections();
});
const { port } = silent.address() as AddressInfo;

const children: ChildProcess[] = [];

async function start(env: Record<string, string> = {}) {
  const child = fork(new URL('killed.child.ts', import.meta.url), {
    env: {
      PATH: process.env['PATH'],
      ...(databaseUrl === undefined ? {} : { DATABASE_URL: databaseUrl }),
      DATA_DIR: folder,
      COLLECTOR_PORT: '0',
      COLLECTOR_LEASE_SECONDS: '5',
      EMBEDDING_DIMENSIONS: String(DIMENSIONS),
      MIN_FREE_DISK_MB: '0',
      LOG_LEVEL: 'silent',
      ...env,
    },
  });
  children.push(child);
  const ended = once(child, 'exit').then(() => assert.fail('the collector did not start'));
  const [url] = (await Promise.race([once(child, 'message'), ended])) as [string];
  ended.catch(() => undefined);
  return {
    url,
    async kill() {
      child.kill('SIGKILL');
      await once(child, 'exit');
    },
  };
}

async function killAll(): Promise<void> {
  const alive = children.filter(
    ({ exitCode, signalCode }) => exitCode === null && signalCode === null,
  );
  for (const child of alive) child.kill('SIGKILL');
  await Promise.all(alive.map((child) => once(child, 'exit')));
}

const TYPE = 'multipart/form-data; boundary=b';

test('a collector killed in the midst of uploads and of the pipeline leaves nothing undecided', async (t) => {
  // Before the database goes, which must find no connection left.
  t.after(killAll);
  const slow = await start({
    MODEL_MODE: 'openai',
    MODEL_BASE_URL: `http://127.0.0.1:${port}/v1`,
    MODEL_CHAT: 'm',
    MODEL_EMBEDDING: 'e',
  });
  const file = { name: 'a.png', bytes: Uint8Array.from(await picture('png')) };
  const [uploads, jobs] = [2, 2];

  // Uploads whose file has come in part, and payloads at the model.
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
  // Of the uploads that were cut off nothing was stored.
  assert.equal((await fetch(`${again.url}/api/v1/raw/${ids.length + 1}`)).status, 404);
  for (const payload of sent) {
    const { status, body } = await sendForm(again.url, formOf(payload, [file]));
    assert.equal(status, 200, JSON.stringify(body));
  }
  assert.deepEqual(await temporaryFiles(folder), []);
  await again.kill();
});
