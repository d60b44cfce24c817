import { connect, migrate } from '@oselya/db';
import { getMigrateOptions } from '@oselya/collector/internals';
import { startProcess } from '../process/parent.ts';
import type { LoadGenerator, Outcome } from './load.ts';
import type { Pgbench } from '../pgbench.ts';
import { runPgbench } from './pgbench.ts';
import type { IngestServer, Settings } from './servers/server.ts';

/** Parameters of a measurement; the database is empty. */
export type MeasurementOptions = {
  databaseUrl: string;
  connections: number;
  seconds: number;
  signal: AbortSignal;
};

/** One measurement. `accepted` counts 202 responses or pgbench's insertions; `stored` counts database rows. */
export type Sample = {
  sent: number;
  accepted: number;
  stored: number;
  seconds: number;
  latency: Outcome['latency'] | undefined;
  /** Processor time of the server's process; undefined for pgbench. */
  cpuMs: number | undefined;
  otherStatusCounts: Record<string, number>;
};

export type Variant = { name: string; measure: (setup: MeasurementOptions) => Promise<Sample> };

/** Database pool size, the same as the collector's default. */
const POOL_SIZE = 16;
const LOAD_MODULE = new URL('load.ts', import.meta.url);
/** Duration of the warm-up as a share of the measurement. */
const WARM_UP_SHARE = 0.4;

export const collector: Variant = server('collector');
export const graphileWorker: Variant = server('Fastify and graphile-worker', 'graphile-worker');
export const pgBoss: Variant = server('Fastify and pg-boss', 'pg-boss');

/** Returns a variant that runs a server and its load generator in separate processes. */
function server(name: string, peer?: Settings['peer']): Variant {
  return {
    name,
    async measure({ databaseUrl, connections, seconds, signal }) {
      const module = peer === undefined ? 'collector' : 'peers';
      const file = new URL(`servers/${module}.ts`, import.meta.url);
      await using process = startProcess<IngestServer>(file, signal);
      await using load = startProcess<LoadGenerator>(LOAD_MODULE, signal);
      const url = await process.call('start', { databaseUrl, poolSize: POOL_SIZE, peer });
      const runLoad = (forSeconds: number, firstId: number) =>
        load.call('run', { url, connections, seconds: forSeconds, firstId });
      const warmUp = await runLoad(seconds * WARM_UP_SHARE, 0);
      const before = await process.call('cpuMs');
      const outcome = await runLoad(seconds, warmUp.sent);
      const cpuMs = (await process.call('cpuMs')) - before;
      const storedCount = (await process.call('countStored')) - warmUp.accepted;
      return { ...outcome, stored: storedCount, cpuMs };
    },
  };
}

/** Returns a variant that runs `pgbench` with the given number of clients on the collector's table. */
export function pgbenchVariant(pgbench: Pgbench, clients: number): Variant {
  return {
    name: `pgbench, ${clients} clients`,
    async measure({ databaseUrl, seconds, signal }) {
      const database = await connect({ url: databaseUrl });
      try {
        await migrate(database, getMigrateOptions({ EMBEDDING_DIMENSIONS: 16 }));
        const { inserted, insertionRate } = await runPgbench(pgbench, {
          databaseUrl,
          clients,
          warmUpSeconds: seconds * WARM_UP_SHARE,
          seconds,
          signal,
        });
        const { rows } = await database.pool.query<{ n: number }>(
          'select count(*) as n from raw_data',
        );
        return {
          sent: inserted,
          accepted: inserted,
          stored: rows[0]?.n ?? 0,
          seconds: inserted / insertionRate,
          latency: undefined,
          cpuMs: undefined,
          otherStatusCounts: {},
        };
      } finally {
        await database.close();
      }
    },
  };
}
