import assert from 'node:assert/strict';
import { test } from 'node:test';
import { isDatabaseOutage, offlineDatabase } from '@oselya/db';
import type { Tables } from '../../src/tables.ts';
import { outlastOutages, RepeatedOutageError } from '../../src/queue/outlast-outages.ts';
import { lossyDatabase, outage } from '../support/lossy-database.ts';
import { log } from '../support/pipeline.ts';

const { db } = offlineDatabase<Tables>();
const deps = { db, log };
const { signal } = new AbortController();

/** Work that meets so many outages. */
function workOf(outages: number) {
  const tries: boolean[] = [];
  const work = (isAgain: boolean) => {
    tries.push(isAgain);
    return tries.length <= outages ? Promise.reject(outage()) : Promise.resolve('done');
  };
  return { tries, work };
}

test('work that meets an outage is done again, as soon as the database answers', async () => {
  const lossy = lossyDatabase(db);
  lossy.lose({ statement: 'select 1', when: 'before', times: 2 });
  const { tries, work } = workOf(1);
  assert.equal(await outlastOutages({ db: lossy.db, log }, work, { signal }), 'done');
  assert.deepEqual(tries, [false, true]);
  assert.ok(lossy.isOver(), 'it was not tried before the database was there');
});

test('every other error stands', async () => {
  const failing = outlastOutages(deps, () => Promise.reject(new Error('boom')), { signal });
  await assert.rejects(failing, /boom/);
});

test('the wait ends with the patience, and with the signal', async () => {
  const lossy = lossyDatabase(db);
  lossy.lose({ statement: 'select 1', when: 'before', times: Infinity });
  const { tries, work } = workOf(Infinity);
  const away = { db: lossy.db, log };
  const patience = { leftMs: 1 };
  await assert.rejects(outlastOutages(away, work, { signal, patience }), isDatabaseOutage);
  const aborted = AbortSignal.abort();
  await assert.rejects(outlastOutages(away, work, { signal: aborted }), isDatabaseOutage);
  assert.deepEqual(tries, [false, false]);
});

test('what meets ten outages while the database answers others is what brings them about', async () => {
  const { tries, work } = workOf(Infinity);
  await assert.rejects(outlastOutages(deps, work, { signal }), RepeatedOutageError);
  assert.equal(tries.length, 10);
  assert.equal(await outlastOutages(deps, workOf(9).work, { signal }), 'done');
});

test('all waits of one job take from the same patience', async () => {
  const patience = { leftMs: 60_000 };
  await outlastOutages(deps, workOf(1).work, { signal, patience });
  const left = patience.leftMs;
  assert.ok(left < 60_000, 'an outage that ended has taken some of it');
  await outlastOutages(deps, workOf(1).work, { signal, patience });
  assert.ok(patience.leftMs < left);

  patience.leftMs = 0;
  const { tries, work } = workOf(1);
  await assert.rejects(outlastOutages(deps, work, { signal, patience }), isDatabaseOutage);
  assert.deepEqual(tries, [false], 'nothing is left for the next one');
});
