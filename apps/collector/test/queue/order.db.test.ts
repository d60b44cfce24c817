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

const { db, deletePayloads, start } = await openQueue();

const scenarioArbitrary = fc.record({
  sourceCount: fc.integer({ min: 1, max: 3 }),
  listingCount: fc.integer({ min: 1, max: 6 }),
  clientCount: fc.integer({ min: 1, max: 8 }),
  payloadsPerClient: fc.integer({ min: 5, max: 20 }),
  workerCount: fc.integer({ min: 1, max: 4 }),
  slotCount: fc.integer({ min: 1, max: 6 }),
  seed: fc.nat(),
});

/** Positions of a payload's events in the order of all events. */
type PayloadEvents = { sent?: number; accepted?: number; starts: number[]; ends: number[] };

/** Returns a pseudorandom number in [0, 1), derived from the values. */
function getChance(...values: number[]): number {
  const mixedHash = values.reduce((hash, value) => Math.imul(hash ^ value, 0x9e3779b1) >>> 0, 17);
  return ((mixedHash ^ (mixedHash >>> 15)) >>> 0) / 2 ** 32;
}

function createJobOutcome(job: Job, seed: number): JobOutcome | Error {
  const randomNumber = getChance(seed, job.rawId, job.attempt);
  const status = randomNumber < 0.7 ? 'completed' : randomNumber < 0.8 ? 'failed' : 'invalid';
  if (randomNumber > 0.97) return new Error('a failure');
  if (randomNumber > 0.93) return { status: 'returned' };
  return { status };
}

async function runScenario(
  scenario: typeof scenarioArbitrary extends fc.Arbitrary<infer S> ? S : never,
) {
  const {
    sourceCount,
    listingCount,
    clientCount,
    payloadsPerClient,
    workerCount,
    slotCount,
    seed,
  } = scenario;
  let eventCount = 0;
  const eventsByPayload = new Map<number, PayloadEvents>();
  const getEvents = (id: number): PayloadEvents => {
    const payloadEvents = eventsByPayload.get(id) ?? { starts: [], ends: [] };
    eventsByPayload.set(id, payloadEvents);
    return payloadEvents;
  };

  const ingest = createIngest({
    db,
    onAccepted: () => runningWorkers.forEach((worker) => worker.notify()),
    log,
  });
  const processJob = async (job: Job): Promise<JobOutcome> => {
    getEvents(job.rawId).starts.push((eventCount += 1));
    await sleep(getChance(seed, job.rawId) * 3);
    getEvents(job.rawId).ends.push((eventCount += 1));
    const outcome = createJobOutcome(job, seed);
    if (outcome instanceof Error) throw outcome;
    return outcome;
  };
  // The lease is so long that no sweep unblocks a missed payload.
  const runningWorkers = Array.from({ length: workerCount }, () =>
    start(processJob, { slots: slotCount, pollMs: 10 }),
  );
  const createListingKey = (n: number) => ({
    source_slug: `source-${n % sourceCount}`,
    external_id: `listing-${n % listingCount}`,
  });
  await Promise.all(
    Array.from({ length: clientCount }, async (_, client) => {
      for (let index = 0; index < payloadsPerClient; index += 1) {
        const sentAt = (eventCount += 1);
        const { id } = await ingest.accept(
          createPayload(createListingKey(Math.floor(getChance(seed, client, index) * 100))),
        );
        Object.assign(getEvents(id), { sent: sentAt, accepted: (eventCount += 1) });
      }
    }),
  );
  await until('every payload to end', async () => {
    const { rows } = await sql`select from raw_data
      where status in ('pending', 'processing') or waits limit 1`.execute(db);
    return rows.length === 0;
  });
  await Promise.all(runningWorkers.map((worker) => worker.stop({ timeoutMs: 5000 })));
  return eventsByPayload;
}

test('Every payload ends once, and the payloads of a listing end in order', async () => {
  await fc.assert(
    fc.asyncProperty(scenarioArbitrary, async (scenario) => {
      const eventsByPayload = await runScenario(scenario);
      const rows = await db
        .selectFrom('raw_data')
        .select(['id', 'source_slug', 'external_id', 'attempt', 'attempts', 'status'])
        .orderBy('id')
        .execute();
      assert.equal(
        rows.length,
        scenario.clientCount * scenario.payloadsPerClient,
        'each sent payload is stored',
      );
      const earlierEvents = new Map<string, PayloadEvents[]>();
      for (const row of rows) {
        const payloadEvents = eventsByPayload.get(row.id);
        assert.ok(
          payloadEvents?.sent !== undefined && payloadEvents.accepted !== undefined,
          'each stored payload was accepted',
        );
        assert.ok(payloadEvents.starts.length <= row.attempt, 'no claim ran twice');
        assert.equal(row.attempts, 1, 'the payload ended once, and returned jobs cost no attempt');
        const key = `${row.source_slug}/${row.external_id}`;
        const [firstStart = 0] = payloadEvents.starts;
        for (const earlierPayload of earlierEvents.get(key) ?? []) {
          // Either of two concurrent payloads may run first.
          if ((earlierPayload.accepted ?? 0) > payloadEvents.sent) continue;
          assert.ok(
            (earlierPayload.ends.at(-1) ?? Infinity) < firstStart,
            `the payloads of ${key} run in order`,
          );
        }
        earlierEvents.set(key, [...(earlierEvents.get(key) ?? []), payloadEvents]);
      }
      await deletePayloads();
    }),
    { numRuns: 8 },
  );
});
