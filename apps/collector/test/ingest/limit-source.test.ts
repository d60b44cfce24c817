import assert from 'node:assert/strict';
import { test } from 'node:test';
import { limitSources } from '../../src/ingest/limit-source.ts';

function scripted({ known = [] as string[], perCaller = Infinity } = {}) {
  const stored = new Set(known);
  const looks: string[] = [];
  const counted: string[] = [];
  const begun = new Map<string, number>();
  const limit = limitSources({
    async perSource(source) {
      counted.push(source);
      return { of: source };
    },
    async newSources(caller) {
      const nth = (begun.get(caller) ?? 0) + 1;
      if (nth > perCaller) throw new Error(`too many of ${caller}`);
      begun.set(caller, nth);
      return {};
    },
    async isKnown(source) {
      looks.push(source);
      return stored.has(source);
    },
  });
  return { limit, looks, counted, begun: () => Object.fromEntries(begun) };
}

test('a known source costs its caller nothing, and is looked up once', async () => {
  const { limit, looks, counted, begun } = scripted({ known: ['doshka'] });
  for (let nth = 0; nth < 3; nth += 1) {
    assert.deepEqual(await limit('doshka', 'a'), { of: 'doshka' });
  }
  assert.deepEqual([looks, counted, begun()], [['doshka'], ['doshka', 'doshka', 'doshka'], {}]);
});

test('payloads of a new source that come at once are one new source', async () => {
  const { limit, begun } = scripted();
  await Promise.all(Array.from({ length: 20 }, () => limit('new', 'a')));
  await limit('new', 'b');
  assert.deepEqual(begun(), { a: 1 });
});

test('past its limit a caller brings no more sources into being, and sends for known ones', async () => {
  const { limit, counted } = scripted({ known: ['doshka'], perCaller: 2 });
  await limit('one', 'a');
  await limit('two', 'a');
  for (let nth = 0; nth < 2; nth += 1) await assert.rejects(limit('three', 'a'), /too many of a/);
  await limit('one', 'a');
  await limit('doshka', 'a');
  await limit('three', 'b');
  await limit('three', 'a');
  assert.deepEqual(counted, ['one', 'two', 'one', 'doshka', 'three', 'three']);
});

test('one caller that is refused refuses no other, who asks at the same moment', async () => {
  const { limit } = scripted({ perCaller: 1 });
  await limit('first', 'a');
  const [refused, taken] = await Promise.allSettled([limit('new', 'a'), limit('new', 'b')]);
  assert.deepEqual([refused.status, taken.status], ['rejected', 'fulfilled']);
});

test('without a limit of new sources nothing is looked up', async () => {
  const limit = limitSources({
    perSource: async (source) => ({ of: source }),
    newSources: undefined,
    isKnown: () => Promise.reject(new Error('looked up')),
  });
  assert.deepEqual(await limit('new', 'a'), { of: 'new' });
});
