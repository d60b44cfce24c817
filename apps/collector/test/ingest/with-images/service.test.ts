import assert from 'node:assert/strict';
import { test } from 'node:test';
import { isDatabaseOutage, offlineDatabase } from '@oselya/db';
import { ProblemError } from '@oselya/kit';
import type { Tables } from '../../../src/tables.ts';
import { createProcessForm } from '../../../src/ingest/with-images.ts';
import type { InlineJobs } from '../../../src/queue/inline.ts';
import { lossyDatabase } from '../../support/lossy-database.ts';
import { payloadOf } from '../../support/payload.ts';

type Outcome = Awaited<ReturnType<InlineJobs['run']>>;

/** Sends a form whose job comes to this, while the database is away from then on. */
function send(outcome: Outcome) {
  const lossy = lossyDatabase(offlineDatabase<Tables>().db);
  lossy.lose({ statement: '', when: 'before', times: Infinity });
  const stored = {
    id: 7,
    status: 'processing',
    contentHash: '',
    waits: false,
    isNew: true,
  } as const;
  const processForm = createProcessForm({
    db: lossy.db,
    store: () => Promise.resolve(stored),
    jobs: { run: () => Promise.resolve(outcome) },
    leaseMs: 60_000,
  });
  return processForm({ payload: payloadOf(), files: [] }, undefined, () => undefined);
}

test('an outage that a job could not wait for is told as its interruption', async () => {
  for (const outcome of ['lost', 'postponed'] as const) {
    await assert.rejects(send(outcome), (error) => {
      assert.ok(error instanceof ProblemError);
      assert.equal(error.code, 'interrupted');
      assert.match(error.message, /database was away .* \(raw_id 7\)/);
      return true;
    });
  }
});

test('one that came after a job had ended is not: nobody knows how it ended', async () => {
  await assert.rejects(send('completed'), isDatabaseOutage);
});
