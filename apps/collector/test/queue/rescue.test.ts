import assert from 'node:assert/strict';
import { test } from 'node:test';
import { offlineDatabase } from '@oselya/db';
import type { Tables } from '../../src/tables.ts';
import type { Job } from '../../src/queue/job.ts';
import { createOutages, keepLeases, rescueLostJobs } from '../../src/queue/leases.ts';
import { createSlots } from '../../src/queue/slots.ts';
import { outage } from '../support/lossy-database.ts';
import { log } from '../support/pipeline.ts';
import { until } from '../support/until.ts';
import { watchedDatabase } from '../support/watched-database.ts';

const job: Job = { rawId: 1, attempt: 1, sourceSlug: 'doshka', externalId: '1', contentHash: '' };

test('after an outage the first look takes no lease for lost: nobody could renew it', async () => {
  const looks: string[] = [];
  const ended = new AbortController();
  const db = watchedDatabase(offlineDatabase<Tables>().db, {
    before(text) {
      if (text.includes('lease_expires_at < now()')) {
        looks.push('for leases');
        if (looks.length === 1) throw outage();
      }
      if (text.includes('select distinct')) looks.push('for what waits');
    },
  });
  const outages = createOutages();
  const deps = { db, log, leaseMs: 20, maxAttempts: 3, outages, onRescued: () => undefined };
  const looking = rescueLostJobs(deps, ended.signal);
  await until('three looks', () => looks.length >= 4);
  ended.abort();
  await looking;
  const [lost, ...afterwards] = looks;
  assert.equal(lost, 'for leases');
  assert.deepEqual(afterwards.slice(0, 3), ['for what waits', 'for leases', 'for what waits']);
});

test('nor does one after renewals failed, though no look met the outage', async (t) => {
  const looks: string[] = [];
  const ended = new AbortController();
  t.after(() => ended.abort());
  const outages = createOutages();
  const note = t.mock.method(outages, 'note');
  const slots = createSlots(1, () => undefined);
  let renewals = 0;
  const db = watchedDatabase(offlineDatabase<Tables>().db, {
    before(text) {
      if (text.includes('lease_expires_at < now()')) looks.push('for leases');
      if (text.includes('select distinct')) looks.push('for what waits');
      if (!text.includes('attempt_usage = job.usage')) return;
      renewals += 1;
      if (renewals === 1) throw outage();
    },
  });
  const { promise: held, resolve: letGo } = Promise.withResolvers<void>();
  slots.run(job, () => held);
  const keeping = keepLeases({ db, slots, log, leaseMs: 3_600_000, outages }, ended.signal);
  await until('a renewal to fail', () => note.mock.callCount() === 1);
  const deps = { db, log, leaseMs: 20, maxAttempts: 3, outages, onRescued: () => undefined };
  const looking = rescueLostJobs(deps, ended.signal);
  await until('two looks', () => looks.length >= 3);
  assert.deepEqual(looks.slice(0, 3), ['for what waits', 'for leases', 'for what waits']);
  await until('a second renewal, long before a third of the lease is over', () => renewals === 2);
  ended.abort();
  letGo();
  await Promise.all([looking, keeping]);
});
