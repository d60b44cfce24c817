import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { createModelClient } from '@oselya/model';
import { completion, startModelServer } from '@oselya/model/testing';
import { until } from '../support/until.ts';
import { openImages } from './harness.ts';
import { picture } from './pictures.ts';
import { serve } from './server.ts';

const { addListing, open, store } = await openImages();
const folder = await mkdtemp(join(tmpdir(), 'oselya-upload-'));
after(() => rm(folder, { recursive: true }));

/** How long one more than there may be has to come: what would begin at once has begun by then. */
const GRACE_MS = 150;

/** Holds work until as much as expected is in progress, and then for as long as more might begin. */
function watch(expected: number) {
  const seen = { all: 0, most: 0 };
  let inProgress = 0;
  return {
    seen,
    async run<Result>(work: () => Result | Promise<Result>): Promise<Result> {
      inProgress += 1;
      seen.all += 1;
      seen.most = Math.max(seen.most, inProgress);
      try {
        await until(`${expected} in progress`, () => seen.most >= expected);
        await sleep(GRACE_MS);
        return await work();
      } finally {
        inProgress -= 1;
      }
    },
  };
}

/** The service over a store and a model server which are both watched. */
async function openWatched(expected: number) {
  const [stores, calls] = [watch(expected), watch(expected)];
  const answer = JSON.stringify({ description: 'A room.', room_type: 'other', quality: 'good' });
  const server = await startModelServer(() => calls.run(() => completion(answer)));
  const model = createModelClient({
    mode: 'openai',
    baseUrl: server.url,
    chat: 'm',
    embedding: 'e',
    timeoutMs: 20_000,
    embeddingDimensions: 3,
  });
  after(async () => {
    await model.close();
    await server.close();
  });
  const put: typeof store.put = (...file) => stores.run(() => store.put(...file));
  const { images } = open({ model, store: { ...store, put } });
  return { images, seen: { stores: stores.seen, calls: calls.seen } };
}

const four = (colours: readonly string[]) =>
  Promise.all(colours.map((colour) => picture('png', { colour })));

test('uploaded pictures are stored one after another, and described one after another', async () => {
  const { images, seen } = await openWatched(1);
  const files = await Promise.all(
    (await four(['red', 'green', 'blue', 'black'])).map(async (bytes, index) => {
      const path = join(folder, String(index));
      await writeFile(path, bytes);
      const sha256 = createHash('sha256').update(bytes).digest('hex');
      return { path, sha256, bytes: bytes.length, name: `${index}.png` };
    }),
  );
  await images.processUploaded({ ...(await addListing()), files });
  assert.deepEqual(seen, { stores: { all: 4, most: 1 }, calls: { all: 4, most: 1 } });
});

test('of fetched pictures three are stored at once, three described at once, and no more', async () => {
  const { images, seen } = await openWatched(3);
  const pictures = await four(['gold', 'silver', 'plum', 'olive']);
  const host = await serve((request, response) => {
    response.end(pictures[Number(request.url?.slice(1))]);
  });
  const urls = pictures.map((_, index) => `${host}/${index}`);
  await images.processRemote({ ...(await addListing()), urls });
  assert.deepEqual(seen, { stores: { all: 4, most: 3 }, calls: { all: 4, most: 3 } });
});
