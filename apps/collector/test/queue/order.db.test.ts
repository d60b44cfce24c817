import assert from 'node:assert/strict';
import { test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import fc from 'fast-check';
import { sql } from 'kysely';
import { createIngest } from '../../src/ingest/store.ts';
import type { Job, JobOutcome } from '../../src/queue/job-types.ts';
import { until } from '@oselya/testing';
import { createPayload, log } from '../support/pipeline.ts';
import { openQueue } from './harness.ts';

const { db, empty, start } = await openQueue();

const scenarios = fc.record({
  sources: fc.integer({ min: 1, max: 3 }),
  listings: fc.integer({ min: 1, max: 6 }),
  clients: fc.integer({ min: 1, max: 8 }),
  payloadsEach: fc.integer({ min: 5, max: 20 }),
  workers: fc.integer({ min: 1, max: 4 }),
  slots: fc.integer({ min: 1, max: 6 }),
  seed: fc.nat(),
});

/** The events of one payload, as positions in the order of all events. */
type Life = { sent?: number; accepted?: number; starts: number[]; ends: number[] };

/** Returns a deterministic number from 0 to 1. */
function chance(...values: number[]): number {
  const mixed = values.reduce((hash, value) => Math.imul(hash ^ value, 0x9e3779b1) >>> 0, 17);
  return ((mixed ^ (mixed >>> 15)) >>> 0) / 2 ** 32;
}

function endingOf(job: Job, seed: number): JobOutcome | Error {
  const luck = chance(seed, job.rawId, job.attempt);
  const status = luck < 0.7 ? 'completed' : luck < 0.8 ? 'failed' : 'invalid';
  if (luck > 0.97) return new Error('a failure');
  if (luck > 0.93) return { status: 'postponed' };
  return { status, error: null, stages: [], listingId: null };
}

async function play(scenario: typeof scenarios extends fc.Arbitrary<infer S> ? S : never) {
  const { sources, listings, clients, payloadsEach, workers, slots, seed } = scenario;
  let events = 0;
  const lives = new Map<number, Life>();
  const lifeOf = (id: number): Life => {
    const life = lives.get(id) ?? { starts: [], ends: [] };
    lives.set(id, life);
    return life;
  };

  const ingest = createIngest({
    db,
    onAccepted: () => running.forEach((worker) => worker.notify()),
    log,
  });
  const process = async (job: Job): Promise<JobOutcome> => {
    lifeOf(job.rawId).starts.push((events += 1));
    await sleep(chance(seed, job.rawId) * 3);
    lifeOf(job.rawId).ends.push((events += 1));
    const ending = endingOf(job, seed);
    if (ending instanceof Error) throw ending;
    return ending;
  };
  // The lease is so long that no sweep repairs a missed release.
  const running = Array.from({ length: workers }, () => start(process, { slots, pollMs: 10 }));
  const listingOf = (n: number) => ({
    source_slug: `source-${n % sources}`,
    external_id: `listing-${n % listings}`,
  });
  await Promise.all(
    Array.from({ length: clients }, async (_, client) => {
      for (let nth = 0; nth < payloadsEach; nth += 1) {
        const sent = (events += 1);
        const { id } = await ingest.accept(
          createPayload(listingOf(Math.floor(chance(seed, client, nth) * 100))),
        );
        Object.assign(lifeOf(id), { sent, accepted: (events += 1) });
      }
    }),
  );
  await until('every payload to end', async () => {
    const { rows } = await sql`select from raw_data
      where status in ('pending', 'processing') or waits limit 1`.execute(db);
    return rows.length === 0;
  });
  await Promise.all(running.map((worker) => worker.stop({ timeoutMs: 5000 })));
  return lives;
}

test('Every payload ends once, and the payloads of a listing end in order', async () => {
  await fc.assert(
    fc.asyncProperty(scenarios, async (scenario) => {
      const lives = await play(scenario);
      const rows = await db
        .selectFrom('raw_data')
        .select(['id', 'source_slug', 'external_id', 'attempt', 'attempts', 'status'])
        .orderBy('id')
        .execute();
      assert.equal(rows.length, scenario.clients * scenario.payloadsEach, 'sent = stored');
      const before = new Map<string, Life[]>();
      for (const row of rows) {
        const life = lives.get(row.id);
        assert.ok(life?.sent !== undefined && life.accepted !== undefined, 'stored = accepted');
        assert.ok(life.starts.length <= row.attempt, 'no claim ran twice');
        assert.equal(row.attempts, 1, 'it ended once, and returned jobs cost no attempt');
        const key = `${row.source_slug}/${row.external_id}`;
        const [begin = 0] = life.starts;
        for (const earlier of before.get(key) ?? []) {
          // Either of two concurrent payloads may be the first.
          if ((earlier.accepted ?? 0) > life.sent) continue;
          assert.ok((earlier.ends.at(-1) ?? Infinity) < begin, `${key} in its order`);
        }
        before.set(key, [...(before.get(key) ?? []), life]);
      }
      await empty();
    }),
    { numRuns: 8 },
  );
});
