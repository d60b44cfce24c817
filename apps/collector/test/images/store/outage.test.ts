import assert from 'node:assert/strict';
import { after, test } from 'node:test';
import type { Logger } from '@oselya/kit';
import { Registry } from 'prom-client';
import {
  createImageStore,
  registerStoreMetrics,
  StoreOutageError,
} from '../../../src/images/store.ts';
import { until } from '../../support/until.ts';

const coded = (code: string) => Object.assign(new Error(code), { code });

/** A store on a disk of which writing fails, or everything, as a test says. */
function open() {
  const state = {
    fails: undefined as { at: 'writing' | 'all'; error: Error } | undefined,
    hangs: false,
    writes: 0,
    reads: 0,
  };
  const lines: string[] = [];
  const read = async () => {
    state.reads += 1;
    if (state.hangs) await new Promise(() => undefined);
    if (state.fails?.at === 'all') throw new Error('wrapped', { cause: state.fails.error });
  };
  const write = async () => {
    state.writes += 1;
    if (state.fails !== undefined) throw new Error('wrapped', { cause: state.fails.error });
  };
  const disk = {
    put: write,
    copyFromFs: write,
    exists: () => read().then(() => false),
    getBytes: () => read().then(() => new Uint8Array()),
  } as unknown as Parameters<typeof createImageStore>[0];
  const note = (_fields: unknown, line: string) => void lines.push(line);
  const log = { warn: note, info: note } as Pick<Logger, 'warn' | 'info'>;
  const opened = createImageStore(disk, { log, firstPauseMs: 1 });
  after(opened.close);
  return { ...opened, inner: state, lines };
}

async function outageOf(work: Promise<unknown>): Promise<object> {
  const error = await work.catch((failure: unknown) => failure);
  assert.ok(error instanceof StoreOutageError, String(error));
  return error.outage;
}

test('all failures until the store can be used again are one outage, which is logged once', async () => {
  for (const at of ['all', 'writing'] as const) {
    const { store, state, inner, lines } = open();
    assert.equal(state.isAway, false);
    inner.fails = { at, error: coded('EROFS') };
    const outage = await outageOf(store.put('a', '/a'));
    assert.equal(state.isAway, true);
    // What can be read does not end it.
    if (at === 'writing') assert.equal(await store.has('a'), false);
    const { writes } = inner;
    await until('some tries', () => inner.writes >= writes + 3);
    assert.equal(await outageOf(store.put('a', '/a')), outage);
    assert.equal(lines.length, 1);
    inner.fails = undefined;
    await until('its end', () => !state.isAway);
    assert.equal(lines.length, 2);
    await store.put('a', '/a');
    inner.fails = { at, error: coded('EIO') };
    assert.notEqual(await outageOf(store.put('a', '/a')), outage);
  }
});

test('a missing object and a full disk are no outage', async () => {
  const { store, state, inner, lines } = open();
  const missing = Object.assign(new Error('not here'), { name: 'NoSuchKey' });
  for (const error of [coded('ENOENT'), missing, coded('ENOSPC')]) {
    inner.fails = { at: 'all', error };
    await assert.rejects(store.read('a'), (failed: Error) => failed.cause === error);
  }
  assert.deepEqual([state.isAway, lines], [false, []]);
});

test('its state is told at once, in the metric too, and the tries end with the process', async () => {
  const { state, inner, close } = open();
  const never = new AbortController().signal;
  assert.equal(await state.answers(never), true);
  inner.hangs = true;
  assert.equal(await state.answers(AbortSignal.timeout(5)), false);
  assert.equal(state.isAway, false, 'nothing has failed yet');
  const registry = new Registry();
  registerStoreMetrics(registry, { imageStore: state });
  const shown = async () =>
    /^collector_image_store_away (\d)$/m.exec(await registry.metrics())?.[1];
  assert.equal(await shown(), '0');
  inner.hangs = false;
  inner.fails = { at: 'all', error: coded('EIO') };
  assert.equal(await state.answers(never), false);
  assert.equal(await shown(), '1');
  await until('a second try', () => inner.writes >= 2);
  close();
  await until('the last try', async () => {
    const { writes } = inner;
    await new Promise(setImmediate);
    return inner.writes === writes;
  });
});
