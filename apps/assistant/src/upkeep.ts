import type { Logger } from '@oselya/kit';
import type { FastifyInstance } from 'fastify';
import type { Kysely, RawBuilder } from 'kysely';
import type { Tables } from './tables.ts';

/** Builds a statement that deletes at most `limit` expired rows of a table, and skips locked rows. */
export type Sweep = (limit: number) => RawBuilder<unknown>;

/** Interval of the sweeps. A late sweep is harmless, because no expired row grants access. */
const SWEEP_INTERVAL_MS = 10 * 60 * 1000;

const BATCH_ROWS = 1000;
const MAX_BATCHES = 100;

/** Deletes expired rows when the server begins to listen, and every ten minutes afterwards. */
export function registerUpkeep(
  app: FastifyInstance,
  { db, log, sweeps }: { db: Kysely<Tables>; log: Logger; sweeps: Record<string, Sweep> },
): void {
  let timer: NodeJS.Timeout | undefined;
  let currentSweep = Promise.resolve();

  async function sweepAll(): Promise<void> {
    for (const [sweepName, sweep] of Object.entries(sweeps)) {
      try {
        const deletedCount = await runSweep(db, sweep);
        if (deletedCount > 0)
          log.info({ what: sweepName, deleted: deletedCount }, 'deleted expired rows');
      } catch (error) {
        log.warn({ err: error, what: sweepName }, 'expired rows could not be deleted');
      }
    }
  }

  app.addHook('onListen', (done) => {
    currentSweep = sweepAll();
    timer = setInterval(() => {
      currentSweep = currentSweep.then(sweepAll);
    }, SWEEP_INTERVAL_MS).unref();
    done();
  });
  app.addHook('onClose', async () => {
    clearInterval(timer);
    await currentSweep;
  });
}

/** Deletes at most 100,000 expired rows in batches, which hold locks briefly. Returns the number of deleted rows. */
export async function runSweep(db: Kysely<Tables>, sweep: Sweep): Promise<number> {
  let deletedCount = 0;
  for (let batch = 0; batch < MAX_BATCHES; batch += 1) {
    const { numAffectedRows = 0n } = await sweep(BATCH_ROWS).execute(db);
    deletedCount += Number(numAffectedRows);
    if (numAffectedRows < BATCH_ROWS) break;
  }
  return deletedCount;
}
