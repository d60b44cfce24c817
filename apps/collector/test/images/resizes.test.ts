import assert from 'node:assert/strict';
import { test } from 'node:test';
import { setImmediate } from 'node:timers/promises';
import sharp from 'sharp';
import { createResizes } from '../../src/images/resizes.ts';
import { picture } from './pictures.ts';

const bytes = await picture('png', { width: 800, height: 400 });

/** A store that gives nothing until it is opened, and remembers what was asked of it. */
function closedStore() {
  const { promise: opened, resolve: open } = Promise.withResolvers<void>();
  const asked: string[] = [];
  let reading = 0;
  let mostReading = 0;
  const store = {
    async read(sha256: string) {
      asked.push(sha256);
      reading += 1;
      mostReading = Math.max(mostReading, reading);
      await opened;
      // What others would begin beside this one they begin now.
      await setImmediate();
      reading -= 1;
      if (sha256 === 'bad') throw new Error('gone');
      return bytes;
    },
  };
  return { store, asked, open, mostReading: () => mostReading };
}

test('two are made at once; what waits has not been read', async () => {
  const { store, asked, open, mostReading } = closedStore();
  const resizes = createResizes(store);
  const made = Array.from({ length: 10 }, (_, index) => resizes.makeSoon(`${index}`, 320));
  await setImmediate();
  assert.deepEqual(asked, ['0', '1']);
  open();
  for (const copy of await Promise.all(made)) {
    assert.equal((await sharp(copy).metadata()).width, 320);
  }
  assert.equal(asked.length, 10);
  assert.equal(mostReading(), 2);
});

test('equal copies are made once for all who want them at the time, and anew later', async () => {
  const { store, asked, open } = closedStore();
  const resizes = createResizes(store);
  const made = Array.from({ length: 30 }, () => resizes.makeSoon('a', 320));
  const other = resizes.make('a', 640);
  open();
  const copies = await Promise.all(made);
  assert.equal(new Set(copies).size, 1);
  assert.equal((await sharp(await other).metadata()).width, 640);
  assert.equal(asked.length, 2);
  await resizes.make('a', 320);
  assert.equal(asked.length, 3);
});

test('behind 32 that wait a request is refused, unless its copy is on its way; a job waits', async () => {
  const { store, open } = closedStore();
  const resizes = createResizes(store);
  const made = Array.from({ length: 34 }, (_, index) => resizes.makeSoon(`${index}`, 320));
  await assert.rejects(resizes.makeSoon('one more', 320), {
    code: 'unavailable',
    status: 503,
    headers: { 'retry-after': '2' },
  });
  const [same, job] = [resizes.makeSoon('33', 320), resizes.make('a job', 320)];
  open();
  await Promise.all([...made, same, job]);
  await resizes.makeSoon('one more', 320);
});

test('one that fails gives its turn to the next', async () => {
  const { store, open } = closedStore();
  const resizes = createResizes(store);
  const bad = [320, 640, 1024].map((side) => resizes.make('bad', side));
  const good = resizes.make('good', 320);
  open();
  const ends = await Promise.allSettled(bad);
  assert.deepEqual(
    ends.map(({ status }) => status),
    ['rejected', 'rejected', 'rejected'],
  );
  assert.equal((await sharp(await good).metadata()).width, 320);
});
