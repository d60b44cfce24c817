import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { connect } from '@oselya/db';
import { atEnd, until } from '@oselya/testing';
import type { TestDatabase } from '@oselya/testing/database';
import type pg from 'pg';
import type { Tables } from '../../src/tables.ts';
import { createImage, serveImages } from '../support/images.ts';
import { startCollector, formOf, sendForm } from '../support/collector.ts';
import { countConnections, named, watchLeftovers, payloadOf } from '../support/pipeline.ts';

/** By this the server tells the connections of the collectors from those of the test. */
const NAME = 'collector-in-trouble';

/** All that the platform waits for is this share of what it is. */
const SHARE = 1 / 12;
const LEASE_SECONDS = 60;
/** A query, its end by the server, and a transaction whose client says nothing. */
const WAITS_MS = {
  query_timeout: 30_000,
  statement_timeout: 31_000,
  idle_in_transaction_session_timeout: 60_000,
};

/** After so long the pool of node-postgres closes a connection that nobody uses: one that is silent too. */
const IDLE_MS = 10_000;

const COUNT = 2;
/** Connections of each: those of its jobs and requests, and one that hears notifications. */
const POOL = 24;
const LISTENERS = 1;

export type Collectors = {
  urls: string[];
  /** Where they find pictures. */
  pictures: string;
  /**
   * Notes what is open before an outage.
   * @returns Waits until that has left nothing: no temporary file, no connection in use, no descriptor.
   */
  watch(): Promise<() => Promise<void>>;
  /** Ends them, after which the server has no connection of theirs. */
  close(): Promise<void>;
};

/**
 * Two collectors, each with a worker, that reach their database at an address of their own and wait for it with
 * the ratio of times that the platform has.
 * @param options.database The same database, by a way that nobody cuts.
 * @param options.between How many descriptors of this process are between them and the server.
 */
export async function startCollectors(
  databaseUrl: string,
  options: { database: Pick<TestDatabase<Tables>, 'db' | 'pool' | 'url'>; between?: () => number },
): Promise<Collectors> {
  const { database, between = () => 0 } = options;
  const { db } = database;
  const address = new URL(named(databaseUrl, NAME));
  for (const [name, ms] of Object.entries(WAITS_MS)) {
    address.searchParams.set(name, String(Math.round(ms * SHARE)));
  }
  const folder = await mkdtemp(join(tmpdir(), 'oselya-outage-'));
  atEnd(() => rm(folder, { recursive: true, force: true }));
  const host = await serveImages();
  const opened = new AsyncDisposableStack();
  atEnd(() => opened.disposeAsync());
  const pools: pg.Pool[] = [];
  const urls: string[] = [];
  for (let nth = 0; nth < COUNT; nth += 1) {
    const own = await connect<Tables>({ url: address.href, maxConnections: POOL });
    opened.defer(own.close);
    own.pool.options.idleTimeoutMillis = IDLE_MS * SHARE;
    const env = {
      DATA_DIR: folder,
      COLLECTOR_INGEST_PER_MINUTE: '0',
      COLLECTOR_LEASE_SECONDS: String(LEASE_SECONDS * SHARE),
      SSRF_ALLOW: '127.0.0.1',
    };
    const collector = await startCollector({ ...own, url: address.href }, env);
    opened.defer(collector.close);
    pools.push(own.pool);
    urls.push(collector.url);
  }
  // What is opened once and stays, such as the folder of temporary files, is open after this.
  for (const url of urls) {
    const bytes = Uint8Array.from(await createImage('png', { width: 16, height: 12 }));
    const { status } = await sendForm(url, formOf(payloadOf(), [{ name: 'a.png', bytes }]));
    if (status !== 200) throw new Error(`A collector answers ${status}`);
  }
  const connections = () => pools.reduce((sum, { totalCount }) => sum + totalCount, 0);
  const inUse = () => pools.some((pool) => pool.totalCount > pool.idleCount);
  const watched = { database, dataDir: folder, host, known: () => connections() + between() };
  return {
    urls,
    pictures: host.url,
    async watch() {
      const untilNothingIsLeft = await watchLeftovers(watched);
      return async () => {
        await untilNothingIsLeft();
        await until('the connections to be free', () => !inUse());
        await until('the server to have no connection but those', async () => {
          const expected = connections() + LISTENERS * COUNT;
          return (await countConnections(db, NAME)) === expected;
        });
      };
    },
    async close() {
      await opened.disposeAsync();
      await until('their connections to end', async () => (await countConnections(db, NAME)) === 0);
    },
  };
}
