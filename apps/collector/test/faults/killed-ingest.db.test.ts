import assert from 'node:assert/strict';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { atEnd, until } from '@oselya/testing';
import { sql } from 'kysely';
import { type CollectorProcess, forkCollector } from '../support/collector.ts';
import {
  countConnections,
  named,
  openDatabase,
  untilResourcesAreFree,
} from '../support/pipeline.ts';
import { keyOf, priceOf, startIngest } from './load.ts';
import { randomOf } from './load.ts';
import { repetitions } from '../support/soak.ts';

/** The connection name of the collectors. */
const NAME = 'ingest-to-be-killed';
const SOURCE = 'killed';

/** The number of concurrent collectors and the kills of each. */
const COLLECTORS = 2;
const KILLS_EACH = repetitions({ soak: 8, ci: 2 });
const SENDERS = 8;
/** The longest time before a kill at a random moment. */
const MOST_WORK_MS = 200;

const random = randomOf(20_261_122);

/** Collectors without workers, with their addresses in `urls`; an address is empty during a restart. */
async function startCollectors(databaseUrl: string, folder: string) {
  const env = {
    DATABASE_URL: named(databaseUrl, NAME),
    DATA_DIR: folder,
    COLLECTOR_WORKER: 'false',
    COLLECTOR_INGEST_PER_MINUTE: '0',
  };
  const start = () => forkCollector(env);
  const collectors = await Promise.all(Array.from({ length: COLLECTORS }, start));
  const urls = collectors.map(({ url }) => url);
  return {
    urls,
    restart: async (nth: number, whenToKill: (url: string) => Promise<void>): Promise<void> => {
      const collector = collectors[nth];
      assert.ok(collector !== undefined);
      await whenToKill(collector.url);
      const killed = collector.kill();
      urls[nth] = '';
      await killed;
      const next: CollectorProcess = await start();
      collectors[nth] = next;
      urls[nth] = next.url;
    },
    killAll: () => Promise.all(collectors.map(({ kill }) => kill())),
  };
}

/** Waits for accepted payloads, and counts payloads that were stored without a response. */
function createAcceptance() {
  const awaited = new Map<string, () => void>();
  const counts = { storedBefore: 0 };
  return {
    counts,
    onAccepted: (url: string, headers: Headers): void => {
      if (headers.has('idempotent-replayed')) counts.storedBefore += 1;
      awaited.get(url)?.();
      awaited.delete(url);
    },
    next: (url: string) => new Promise<void>((resolve) => awaited.set(url, resolve)),
  };
}

// A killed process needs a database outside it.
if (process.env['TEST_DATABASE_URL'] !== undefined) {
  const { db, url: databaseUrl = '' } = await openDatabase();

  test('Payloads accepted by killed collectors are stored once, and the others can be sent again', async (t: TestContext) => {
    const folder = await mkdtemp(join(tmpdir(), 'oselya-kills-'));
    atEnd(() => rm(folder, { recursive: true }));
    const { urls, restart, killAll } = await startCollectors(databaseUrl, folder);
    t.after(killAll);
    const { onAccepted, next, counts } = createAcceptance();
    const ingest = startIngest(SOURCE, { urls, connections: SENDERS, onAccepted });

    async function killAgainAndAgain(nth: number): Promise<void> {
      for (let kill = 0; kill < KILLS_EACH; kill += 1) {
        await restart(nth, async (url) => {
          // Every second process is killed at a response while other requests are in progress.
          await next(url);
          if (kill % 2 === 0) await sleep(random() * MOST_WORK_MS);
        });
      }
    }
    await Promise.all(urls.map((_, nth) => killAgainAndAgain(nth)));
    await Promise.all(urls.map(next));
    const { accepted, unanswered, unavailable, wrong } = await ingest.stop();
    await killAll();

    assert.deepEqual([wrong, unavailable], [[], 0]);
    assert.ok(unanswered > 0, 'requests were cut off');
    const { rows } = await sql<{ key: string; id: number; price: number; isNew: boolean }>`
      select idempotency_key as key, id, (payload ->> 'price')::float as price,
        status = 'pending' and attempts = 0 as "isNew"
      from raw_data`.execute(db);
    assert.equal(rows.length, accepted.size, 'one record for each key');
    assert.deepEqual(new Map(rows.map(({ key, id }) => [key, id])), accepted);
    const prices = new Map(rows.map(({ key, price }) => [key, price]));
    const sent = Array.from({ length: accepted.size }, (_, nth) => nth + 1);
    assert.deepEqual(
      sent.map((nth) => prices.get(keyOf(SOURCE, nth))),
      sent.map(priceOf),
    );
    assert.ok(rows.every(({ isNew }) => isNew));
    const connections = () => countConnections(db, NAME);
    await until('their connections to end', async () => (await connections()) === 0);
    await untilResourcesAreFree({ folder });
    t.diagnostic(
      `${COLLECTORS * KILLS_EACH} kills, ${accepted.size} accepted, ${counts.storedBefore} of them stored before without an answer, ` +
        `${unanswered} requests without one in all`,
    );
  });
}
