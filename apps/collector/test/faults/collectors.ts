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
import { countConnections, named, watchResources, payloadOf } from '../support/pipeline.ts';

/** The connection name of the collectors. */
const NAME = 'collector-in-trouble';

/** The factor that shortens all timeouts. */
const SHARE = 1 / 12;
const LEASE_SECONDS = 60;
/** The timeouts of a query, a statement and an idle transaction. */
const WAITS_MS = {
  query_timeout: 30_000,
  statement_timeout: 31_000,
  idle_in_transaction_session_timeout: 60_000,
};

/** The idle timeout of the pool, which also closes silent connections. */
const IDLE_MS = 10_000;

const COUNT = 2;
/** Connections of each collector: its pool, and one for notifications. */
const POOL = 24;
const LISTENERS = 1;

export type Collectors = {
  urls: string[];
  /** The address of the image host. */
  imageHost: string;
  /**
   * Records the open resources before an outage.
   * @returns Waits until no temporary file, connection in use or descriptor is left.
   */
  watch(): Promise<() => Promise<void>>;
  /** Closes the collectors and checks that their connections are closed. */
  close(): Promise<void>;
};

/**
 * Starts two collectors with a worker and a separate database address each. Their timeouts keep
 * the ratio of the defaults.
 * @param options.database The same database through a stable connection.
 * @param options.between The number of descriptors of this process between the collectors and the server.
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
  // The first request opens resources that stay.
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
    imageHost: host.url,
    async watch() {
      const untilResourcesAreFree = await watchResources(watched);
      return async () => {
        await untilResourcesAreFree();
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
