import assert from 'node:assert/strict';
import { mkdtemp, readdir, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Readable } from 'node:stream';
import { after, test } from 'node:test';
import { MAX_FORM_BYTES } from '../../../src/ingest/form.ts';
import { MEBIBYTE } from '../../../src/schemas.ts';
import { FORM_TYPE, formBytes, image, metadata } from '../../support/form-bytes.ts';
import { startRoutes } from './routes-server.ts';

const folder = await mkdtemp(join(tmpdir(), 'oselya-size-'));
after(() => rm(folder, { recursive: true }));

/** What the pipeline was given: the bytes of each form's files. */
const processed: number[][] = [];

const url = await startRoutes({
  folder,
  async processForm({ files }) {
    processed.push(files.map(({ bytes }) => bytes));
    assert.equal((await readdir(folder)).length, files.length, 'they are there while it runs');
    return { raw_id: 1, status: 'completed' as const, listing_id: 1, images: [] };
  },
  atOnce: 1,
  maxBytes: MEBIBYTE,
});

/** Sends files of so many bytes without saying how long the form is. */
async function send(sizes: readonly number[], payload = metadata()) {
  const files = sizes.map((bytes, nth) => image(`${nth}.png`, Buffer.alloc(bytes)));
  const response = await fetch(`${url}/ingest/with-images`, {
    method: 'POST',
    headers: { 'content-type': FORM_TYPE },
    body: Readable.toWeb(Readable.from([formBytes([payload, ...files])])) as ReadableStream,
    duplex: 'half',
  });
  return { status: response.status, body: (await response.json()) as { detail: string } };
}

test('a form that does not say how long it is may have so many bytes in all, and not one more', async () => {
  const payload = metadata();
  const rest = MEBIBYTE - Buffer.byteLength(payload.content);
  const whole = await send([400_000, 400_000, rest - 800_000], payload);
  assert.equal(whole.status, 200, JSON.stringify(whole.body));
  assert.deepEqual(processed, [[400_000, 400_000, rest - 800_000]]);
  assert.deepEqual(await readdir(folder), []);

  const larger = await send([400_000, 400_000, rest - 800_000 + 1], payload);
  assert.equal(larger.status, 413);
  assert.match(larger.body.detail, /larger than 1 MB, up to the file "2\.png"/);
  assert.deepEqual(await readdir(folder), []);
  assert.equal(processed.length, 1);
});

test('a form may have 512 MB, unless told otherwise', () => {
  assert.equal(MAX_FORM_BYTES, 512 * MEBIBYTE);
});
