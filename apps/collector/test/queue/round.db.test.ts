import assert from 'node:assert/strict';
import { test } from 'node:test';
import { sql } from 'kysely';
import { Registry } from 'prom-client';
import { createMetrics } from '../../src/metrics.ts';
import { startWorker } from '../../src/queue/worker.ts';
import { fakeBreaker } from '../support/breaker.ts';
import { openDatabase } from '../support/database.ts';
import { log } from '../support/pipeline.ts';
import { until } from '../support/until.ts';

const { db } = await openDatabase();

/** Pending payloads of a source, past everything that an ingest does. */
async function fill(source: string, count: number): Promise<void> {
  await sql`insert into sources (slug) values (${source})`.execute(db);
  await sql`insert into raw_data (source_slug, external_id, payload, content_hash)
    select ${source}, n::text, '{}', '' from generate_series(1, ${count}::integer) as n`.execute(
    db,
  );
}

test('a worker of one slot goes round: no backlog of others holds up the last source', async () => {
  // More sources than one claim takes from, so that each claim has to go on where the last one ended.
  const busy = Array.from({ length: 20 }, (_, nth) => `busy-${String(nth).padStart(2, '0')}`);
  for (const source of busy) await fill(source, 20);
  await fill('single', 1);
  const begun: string[] = [];
  const worker = startWorker({
    db,
    process: (job) => {
      begun.push(job.sourceSlug);
      return Promise.resolve({ status: 'completed', error: null, stages: [], listingId: null });
    },
    breaker: fakeBreaker(),
    metrics: createMetrics(new Registry()),
    log,
    slots: 1,
    leaseMs: 60_000,
    maxAttempts: 3,
  });
  try {
    await until('all to be processed', () => begun.length === 20 * busy.length + 1);
  } finally {
    await worker.stop({ timeoutMs: 20_000 });
  }
  // A claim takes some of each of its sources, as many as jobs have just ended.
  const place = begun.indexOf('single');
  assert.ok(place < 100, `it was the ${place}th of ${begun.length}`);
  const beforeSecond = begun.lastIndexOf('busy-00');
  assert.ok(beforeSecond > place, 'the first source had more to do by then');
});
