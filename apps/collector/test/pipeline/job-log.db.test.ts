import assert from 'node:assert/strict';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { atEnd, until } from '@oselya/testing';
import { createLossyDatabase } from '@oselya/testing/database';
import { createLogger } from '@oselya/kit';
import { start } from '../../src/main.ts';
import {
  DIMENSIONS,
  openDatabase,
  rawRecord,
  startModelServer,
  payloadOf,
} from '../support/pipeline.ts';

type Line = {
  msg: string;
  raw_id?: number;
  request_id?: string;
  source?: string;
  attempt?: number;
  outcome?: string;
  reason?: string;
};

const database = await openDatabase();
const lossy = createLossyDatabase(database.db);
const server = await startModelServer();
const folder = await mkdtemp(join(tmpdir(), 'oselya-log-'));
const lines: Line[] = [];
const running = await start(
  {
    DATA_DIR: folder,
    COLLECTOR_PORT: '0',
    EMBEDDING_DIMENSIONS: String(DIMENSIONS),
    MIN_FREE_DISK_MB: '0',
    MODEL_MODE: 'openai',
    MODEL_BASE_URL: server.url,
    MODEL_CHAT: 'chat',
    MODEL_EMBEDDING: 'embedding',
  },
  {
    database: { ...database, db: lossy.db },
    log: createLogger({
      level: 'info',
      service: 'test',
      destination: { write: (line) => lines.push(JSON.parse(line) as Line) },
    }),
  },
);
atEnd(async () => {
  await running.close();
  await server.close();
  await rm(folder, { recursive: true, force: true });
});

/** Sends a payload in a request with this id, and returns its raw id. */
async function send(requestId: string, source: string): Promise<number> {
  const response = await fetch(`${running.url}/api/v1/ingest`, {
    method: 'POST',
    headers: { 'content-type': 'application/json', 'x-request-id': requestId },
    body: JSON.stringify(payloadOf({ source_slug: source })),
  });
  assert.equal(response.status, 202);
  return ((await response.json()) as { raw_id: number }).raw_id;
}

const ended = (rawId: number) =>
  until(`the line of job ${rawId}`, () =>
    lines.some(({ msg, raw_id: id }) => msg === 'job' && id === rawId),
  );

test('Every log line of a job names its payload and request', async () => {
  await until('the probes', () => lines.filter(({ msg }) => msg.startsWith('Probed')).length === 2);
  lines.length = 0;
  // During an outage the client retries, the stage fails, and the job returns to the queue.
  server.state.up = false;
  const first = await send('request-one', 'one');
  await ended(first);
  server.state.up = true;
  const second = await send('request-two', 'two');
  await ended(second);
  const completed = await until('the next attempt', () =>
    lines.find(({ msg, raw_id: id, attempt }) => msg === 'job' && id === first && attempt === 2),
  );
  assert.equal(completed.outcome, 'completed');

  const ofJobs = lines.filter(({ msg }) => msg !== 'request');
  const linesOf = (rawId: number) =>
    ofJobs
      .filter(({ raw_id: id }) => id === rawId)
      .map(({ msg, request_id: request, source, attempt }) => [msg, request, source, attempt]);
  const failing = Array.from({ length: 3 }, () => 'a request to the model failed');
  assert.deepEqual(linesOf(first), [
    ...[...failing, 'a stage failed', 'job'].map((msg) => [msg, 'request-one', 'one', 1]),
    ['job', 'request-one', 'one', 2],
  ]);
  assert.deepEqual(linesOf(second), [['job', 'request-two', 'two', 1]]);
  for (const { msg, reason } of ofJobs) {
    if (msg === failing[0]) assert.match(String(reason), /answered 503 to POST .*: overloaded\.$/);
  }
  assert.equal(ofJobs.length, linesOf(first).length + linesOf(second).length);
  assert.equal((await rawRecord(database.db, first)).request_id, 'request-one');
});

test('Every log line of a job within a request names its payload and request', async () => {
  const form = new FormData();
  form.set('metadata', JSON.stringify(payloadOf({ source_slug: 'three' })));
  const response = await fetch(`${running.url}/api/v1/ingest/with-images`, {
    method: 'POST',
    headers: { 'x-request-id': 'request-three' },
    body: form,
  });
  assert.equal(response.status, 200);
  const { raw_id: id } = (await response.json()) as { raw_id: number };
  const job = await until('its line', () =>
    lines.find((line) => line.msg === 'job' && line.raw_id === id),
  );
  assert.equal(job.request_id, 'request-three');
  assert.equal((await rawRecord(database.db, id)).request_id, 'request-three');
});

test('A job that loses the database is dropped, and runs again under its request', async () => {
  lossy.lose({ statement: 'set completed_hash =', when: 'before', times: 1 });
  const id = await send('request-four', 'four');
  await ended(id);
  const said = lines.filter(({ raw_id }) => raw_id === id);
  assert.deepEqual(
    said.map(({ msg, request_id: request }) => [msg, request]),
    ['a job was dropped', 'job'].map((msg) => [msg, 'request-four']),
  );
});
