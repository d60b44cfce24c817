import assert from 'node:assert/strict';
import { mkdtemp, readdir, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, test } from 'node:test';
import type { ApiKey } from '../../../src/access/api-keys.ts';
import { createPlaces } from '../../../src/ingest/with-images.ts';
import { formOf } from '../../support/form.ts';
import { FORM_TYPE, formBytes, image, metadata } from '../../support/form-bytes.ts';
import { payloadOf } from '../../support/payload.ts';
import { openSocket, requestHead } from '../../support/raw-http.ts';
import { until } from '../../support/until.ts';
import { startRoutes } from './routes-server.ts';

const PATH = '/ingest/with-images';
const folder = await mkdtemp(join(tmpdir(), 'oselya-places-'));
after(() => rm(folder, { recursive: true }));

const keyOf = (id: string): ApiKey => ({ id, name: id, scopes: ['ingest'], source_slugs: null });
const options = {
  folder,
  keys: { verify: async (text: string) => keyOf(text) },
  processForm: async () => ({
    raw_id: 1,
    status: 'completed' as const,
    listing_id: 1,
    images: [],
  }),
  atOnce: 1,
};

/** Begins a form of a caller's that does not go on. */
async function stall(url: string, caller: string, begun: Buffer) {
  const socket = await openSocket(url);
  const headers = { authorization: `Bearer ${caller}`, 'content-type': FORM_TYPE };
  socket.write(requestHead(PATH, { ...headers, 'content-length': begun.length + 100 }));
  socket.write(begun);
  return socket;
}

async function send(url: string, caller: string) {
  const headers = { authorization: `Bearer ${caller}` };
  const body = formOf(payloadOf(), []);
  const response = await fetch(`${url}${PATH}`, { method: 'POST', headers, body });
  const { code, detail } = (await response.json()) as { code?: string; detail?: string };
  return { status: response.status, code, detail };
}

test('a quarter of the places is kept from one caller, and others have theirs meanwhile', async () => {
  const url = await startRoutes(options);
  const begun = formBytes([metadata(), image('a.png', 'x')], { end: '' });
  const slow = [
    await stall(url, 'slow', begun),
    await stall(url, 'slow', Buffer.alloc(0)),
    await stall(url, 'slow', Buffer.alloc(0)),
  ];
  await until('a temporary file', async () => (await readdir(folder)).length === 1);
  const refused = await until('a refusal', async () => {
    const answer = await send(url, 'slow');
    return answer.status === 503 && answer;
  });
  assert.equal(refused.code, 'uploads_busy');
  assert.match(String(refused.detail), /may have 3 payloads with images/);
  assert.equal((await send(url, 'other')).status, 200);
  for (const socket of slow) socket.destroy();
  await until('its place is free', async () => (await send(url, 'slow')).status === 200);
});

test('there are four places for each turn, three of them for one caller; they are free again whatever becomes of the work', async () => {
  const inPlace = createPlaces(2);
  const { promise, resolve } = Promise.withResolvers<void>();
  const held = ['a', 'a', 'a', 'a', 'a', 'a', 'b'].map((caller) => inPlace(caller, () => promise));
  await assert.rejects(
    inPlace('a', () => promise),
    /COLLECTOR_UPLOADS/,
  );
  held.push(inPlace('b', () => promise));
  await assert.rejects(
    inPlace('c', () => promise),
    { code: 'uploads_busy', message: /Four times/ },
  );
  resolve();
  await Promise.all(held);
  for (let times = 0; times < 3; times += 1) {
    await assert.rejects(
      inPlace('a', () => Promise.reject(new Error('It failed'))),
      /It failed/,
    );
  }
  assert.equal(await inPlace('a', async () => 'done'), 'done');
});
