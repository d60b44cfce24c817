import assert from 'node:assert/strict';
import {
  mkdirSync,
  mkdtempSync,
  readdirSync,
  renameSync,
  rmSync,
  utimesSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, test } from 'node:test';
import { beginLoad, fingerprintOf, type LoadSpec } from '../../src/ingest/kept-load.ts';

const folder = mkdtempSync(join(tmpdir(), 'oselya-loads-'));
after(() => rmSync(folder, { recursive: true }));

/** A user whose state folder is empty. */
function newUser() {
  const state = mkdtempSync(join(folder, 'state-'));
  const loads = join(state, 'oselya', 'loads');
  const problems: string[] = [];
  const env = { XDG_STATE_HOME: state, LOCALAPPDATA: state };
  return {
    loads,
    problems,
    kept: () => readdirSync(loads).map((name) => join(loads, name)),
    begin: (spec: Partial<LoadSpec> = {}) =>
      beginLoad(
        { collectorUrl: 'http://127.0.0.1:8001', source: 'mine', fingerprint: 'a', ...spec },
        { env, onProblem: (reason) => problems.push(reason) },
      ),
  };
}

test('an interrupted load goes on; one that has ended is followed by another', async () => {
  const { begin, kept, problems } = newUser();
  const first = await begin();
  assert.equal(first.resumedFrom, undefined);
  const second = await begin();
  assert.equal(second.id, first.id);
  assert.ok(second.resumedFrom !== undefined && Date.now() - second.resumedFrom.getTime() >= 0);
  await second.end();
  assert.deepEqual(kept(), []);
  const third = await begin();
  assert.notEqual(third.id, first.id);
  assert.equal(third.resumedFrom, undefined);
  assert.deepEqual(problems, []);
});

test('once another file was begun for a source, the first one begins anew', async () => {
  const { begin, kept } = newUser();
  const ids = [await begin(), await begin({ fingerprint: 'b' }), await begin()].map(({ id }) => id);
  assert.equal(new Set(ids).size, 3);
  assert.equal(kept().length, 1);
});

for (const [name, other] of [
  ['what cannot be read twice', { fingerprint: undefined }],
  ['a load with a name', { name: 'nightly' }],
] as const) {
  test(`${name} also means that the first file begins anew`, async () => {
    const { begin } = newUser();
    const first = await begin();
    await begin(other);
    assert.notEqual((await begin()).id, first.id);
  });
}

test('other sources and other collectors have loads of their own', async () => {
  const { begin } = newUser();
  const specs = [{}, { source: 'theirs' }, { collectorUrl: 'https://collector.example' }];
  const first = await Promise.all(specs.map((spec) => begin(spec)));
  assert.equal(new Set(first.map(({ id }) => id)).size, 3);
  const second = await Promise.all(specs.map((spec) => begin(spec)));
  assert.deepEqual(
    second.map(({ id }) => id),
    first.map(({ id }) => id),
  );
});

test('--again begins another load, and that is the one to go on with', async () => {
  const { begin } = newUser();
  const first = await begin();
  const again = await begin({ again: true });
  assert.notEqual(again.id, first.id);
  assert.equal((await begin()).id, again.id);
});

test('a name is the id, every time; without a file there is none to go on with', async () => {
  const { begin } = newUser();
  const named = await begin({ name: 'nightly', fingerprint: undefined });
  assert.deepEqual([named.id, named.isResumable], ['nightly', true]);
  await named.end();
  assert.equal((await begin({ name: 'nightly' })).id, 'nightly');
  const streams = [
    await begin({ fingerprint: undefined }),
    await begin({ fingerprint: undefined }),
  ];
  assert.notEqual(streams[0]?.id, streams[1]?.id);
  assert.deepEqual(
    streams.map(({ isResumable }) => isResumable),
    [false, false],
  );
});

test('the end of one load leaves the record of another that has begun meanwhile', async () => {
  const { begin } = newUser();
  const first = await begin();
  const second = await begin({ fingerprint: 'b' });
  await first.end();
  assert.equal((await begin({ fingerprint: 'b' })).id, second.id);
});

const hoursAgo = (hours: number) => Date.now() - hours * 3_600_000;

test('after 20 hours a load begins anew, and nothing old is kept', async () => {
  const { begin, kept, loads } = newUser();
  const first = await begin();
  const setBegun = (begun: number) => {
    const [path = ''] = kept();
    writeFileSync(path, JSON.stringify({ id: first.id, fingerprint: 'a', begun_at: begun }));
  };
  setBegun(hoursAgo(19.9));
  assert.equal((await begin()).id, first.id);
  setBegun(hoursAgo(20.1));
  assert.notEqual((await begin()).id, first.id);

  const old = join(loads, 'old.json');
  writeFileSync(old, '{}');
  utimesSync(old, new Date(hoursAgo(20.1)), new Date(hoursAgo(20.1)));
  await begin({ source: 'theirs' });
  assert.equal(kept().length, 2);
  assert.ok(!kept().includes(old));
});

test('what a killed run has left of its record is as none', async () => {
  const { begin, kept } = newUser();
  const first = await begin();
  for (const content of ['', '{"id":"', '[]', '{"id":"../x","fingerprint":"a","begun_at":1}']) {
    writeFileSync(kept()[0] ?? '', content);
    const next = await begin();
    assert.equal(next.resumedFrom, undefined);
    assert.notEqual(next.id, first.id);
  }
});

test('where nothing can be kept it is told, and the load goes on without', async () => {
  const { begin, loads, problems } = newUser();
  writeFileSync(join(loads, '../..', 'oselya'), 'in the way');
  const load = await begin();
  assert.equal(load.isResumable, false);
  assert.equal(problems.length, 1);
  await load.end();
});

test('a file is another one when it is written anew, moved there, or read in another way', async () => {
  const path = join(folder, 'export.csv');
  writeFileSync(path, 'a');
  const first = await fingerprintOf(path, ['csv']);
  assert.ok(first !== undefined);
  assert.equal(await fingerprintOf(path, ['csv']), first);
  assert.notEqual(await fingerprintOf(path, ['jsonl']), first);

  const kept = join(folder, 'kept.csv');
  renameSync(path, kept);
  writeFileSync(path, 'b');
  const second = await fingerprintOf(path, ['csv']);
  rmSync(path);
  writeFileSync(path, 'a');
  assert.equal(new Set([first, second, await fingerprintOf(path, ['csv'])]).size, 3);

  mkdirSync(join(folder, 'a-folder'));
  for (const none of ['-', join(folder, 'a-folder'), join(folder, 'none')]) {
    assert.equal(await fingerprintOf(none, ['csv']), undefined);
  }
});
