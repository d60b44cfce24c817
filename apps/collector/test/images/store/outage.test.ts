import assert from 'node:assert/strict';
import { after, test } from 'node:test';
import { Registry } from 'prom-client';
import { registerStoreMetrics } from '../../../src/images/store/metrics.ts';
import { type StoreDisk, StoreOutageError, watchDisk } from '../../../src/images/store/outage.ts';
import { until } from '../../support/until.ts';

const coded = (code: string) => Object.assign(new Error(code), { code });

/** A disk whose requests fail, those that write or all, as a test says; it knows nothing else. */
function open() {
  const state = {
    /** What fails, and with what. */
    fails: undefined as { at: 'writing' | 'all'; error: Error } | undefined,
    writes: 0,
    reads: 0,
  };
  const told: string[] = [];
  const read = async () => {
    state.reads += 1;
    if (state.fails?.at === 'all') throw new Error('wrapped', { cause: state.fails.error });
  };
  const write = async () => {
    state.writes += 1;
    if (state.fails !== undefined) throw new Error('wrapped', { cause: state.fails.error });
  };
  const disk = {
    put: write,
    copyFromFs: write,
    exists: () => read().then(() => true),
    getBytes: () => read().then(() => new Uint8Array()),
  } as unknown as StoreDisk;
  const watch = watchDisk(disk, {
    onBegin: (error) => told.push(`away: ${String(error instanceof Error && error.cause)}`),
    onEnd: () => told.push('back'),
    firstPauseMs: 1,
  });
  after(watch.close);
  return { ...watch, inner: state, told };
}

/** The outage that work fails in. */
async function outageOf(work: Promise<unknown>): Promise<object> {
  const error = await work.catch((failure: unknown) => failure);
  assert.ok(error instanceof StoreOutageError, String(error));
  return error.outage;
}

test('all that fails until the store can be used again is one outage, which is told once', async () => {
  const { disk, state, inner, told } = open();
  assert.equal(state.isAway, false);
  inner.fails = { at: 'all', error: coded('ECONNREFUSED') };
  const outage = await outageOf(disk.exists('a'));
  assert.equal(state.isAway, true);
  assert.equal(await outageOf(disk.copyFromFs('/a', 'a')), outage);
  const { writes } = inner;
  await until('some tries', () => inner.writes >= writes + 3);
  assert.deepEqual(told, ['away: Error: ECONNREFUSED']);
  inner.fails = undefined;
  await until('its end', () => !state.isAway);
  assert.equal(told.length, 2);
  assert.equal(told[1], 'back');
  await disk.put('a', '');
  inner.fails = { at: 'all', error: coded('EIO') };
  assert.notEqual(await outageOf(disk.put('a', '')), outage);
  assert.deepEqual(told.slice(2), ['away: Error: EIO']);
});

test('where only writing fails, what can be read does not end the outage', async () => {
  const { disk, state, inner } = open();
  inner.fails = { at: 'writing', error: coded('EROFS') };
  const outage = await outageOf(disk.copyFromFs('/a', 'a'));
  for (let nth = 0; nth < 3; nth += 1) {
    assert.equal(await disk.exists('a'), true);
    const { writes } = inner;
    await until('a try', () => inner.writes > writes);
  }
  assert.equal(await outageOf(disk.put('a', '')), outage);
  inner.fails = undefined;
  const { reads } = inner;
  await until('its end', () => !state.isAway);
  assert.ok(inner.reads > reads, 'what was written is read, too');
});

test('what is not there, and a full disk, are no outage', async () => {
  const { disk, state, inner, told } = open();
  const missing = Object.assign(new Error('not here'), { name: 'NoSuchKey' });
  for (const error of [coded('ENOENT'), missing, coded('ENOSPC')]) {
    inner.fails = { at: 'all', error };
    await assert.rejects(disk.getBytes('a'), (failed: Error) => failed.cause === error);
  }
  assert.equal(state.isAway, false);
  assert.deepEqual(told, []);
});

test('whoever asks hears whether it answers, and is not kept waiting', async () => {
  const { disk, state, inner } = open();
  const never = new AbortController().signal;
  assert.equal(await state.answers(never), true);
  inner.fails = { at: 'all', error: coded('ETIMEDOUT') };
  assert.equal(await state.answers(never), false);
  assert.equal(state.isAway, true, 'a failure is one whoever met it');
  inner.fails = undefined;
  await until('its end', () => !state.isAway);
  disk.exists = () => new Promise(() => undefined);
  const hanging = watchDisk(disk, { onBegin: () => assert.fail(), onEnd: () => assert.fail() });
  assert.equal(await hanging.state.answers(AbortSignal.timeout(5)), false);
  assert.equal(hanging.state.isAway, false, 'nothing has failed yet');
});

test('the tries end with the process', async () => {
  const { disk, state, inner, close } = open();
  inner.fails = { at: 'all', error: coded('EIO') };
  await outageOf(disk.exists('a'));
  await until('a second try', () => inner.writes >= 2);
  close();
  await until('the one that was on its way', async () => {
    const { writes } = inner;
    await new Promise(setImmediate);
    return inner.writes === writes;
  });
  assert.equal(state.isAway, true);
});

test('a metric shows it', async () => {
  const registry = new Registry();
  const imageStore = { isAway: false };
  registerStoreMetrics(registry, { imageStore });
  const shown = async () =>
    /^collector_image_store_away (\d)$/m.exec(await registry.metrics())?.[1];
  assert.equal(await shown(), '0');
  imageStore.isAway = true;
  assert.equal(await shown(), '1');
});
