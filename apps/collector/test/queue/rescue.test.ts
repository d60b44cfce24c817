import assert from 'node:assert/strict';
import { test } from 'node:test';
import { offlineDatabase } from '@oselya/db';
import type { Tables } from '../../src/database/tables.ts';
import { rescueLostJobs } from '../../src/queue/leases.ts';
import { outage } from '../support/lossy-database.ts';
import { log } from '../support/pipeline.ts';
import { until } from '../support/until.ts';
import { watchedDatabase } from '../support/watched-database.ts';

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
  const deps = { db, log, leaseMs: 20, maxAttempts: 3, onRescued: () => undefined };
  const looking = rescueLostJobs(deps, ended.signal);
  await until('three looks', () => looks.length >= 4);
  ended.abort();
  await looking;
  const [lost, ...afterwards] = looks;
  assert.equal(lost, 'for leases');
  assert.deepEqual(afterwards.slice(0, 3), ['for what waits', 'for leases', 'for what waits']);
});
