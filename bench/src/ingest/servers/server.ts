import pg from 'pg';
import { serveMethods } from '../../process/child.ts';
import { cpuMs } from '../../process/server.ts';

/** Settings of a server. */
export type Settings = {
  databaseUrl: string;
  /** Size of a peer's database pool; the collector uses its default, which is the same. */
  poolSize: number;
  /** Queue behind the ingest route; undefined for the collector. */
  peer: 'graphile-worker' | 'pg-boss' | undefined;
};

export type MeasuredServer = { url: string; countStored: () => Promise<number> };

export type IngestServer = ReturnType<typeof createMethods>;

/** Serves the methods of a server process to the parent. */
export function serveIngest(start: (settings: Settings) => Promise<MeasuredServer>): void {
  serveMethods(createMethods(start));
}

/** Returns the number of rows of a table. `table` may include a `where` clause. */
export async function countRows(databaseUrl: string, table: string): Promise<number> {
  const client = new pg.Client({ connectionString: databaseUrl });
  await client.connect();
  const { rows } = await client.query<{ n: number }>(`select count(*)::integer as n from ${table}`);
  await client.end();
  return rows[0]?.n ?? 0;
}

function createMethods(start: (settings: Settings) => Promise<MeasuredServer>) {
  let server: MeasuredServer;
  return {
    async start(settings: Settings): Promise<string> {
      server = await start(settings);
      return server.url;
    },
    countStored: () => server.countStored(),
    cpuMs,
  };
}
