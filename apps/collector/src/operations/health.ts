import type { HealthChecks } from '@oselya/kit';
import type { ModelClient } from '@oselya/model';
import { type Kysely, sql } from 'kysely';
import type { Tables } from '../database/tables.ts';
import type { Disk } from '../disk/disk.ts';
import { MEBIBYTE } from '../limits.ts';

/**
 * The checks of `GET /health`. Without the model payloads wait and the words can still be searched, so
 * its absence, or its silence until the signal ends the wait, degrades the service and does not end it.
 * Contract 4, Health.
 */
export function createHealthChecks(deps: {
  db: Kysely<Tables>;
  model: Pick<ModelClient, 'health' | 'breaker'>;
  /** Where images, and the embedded database, are kept. */
  disk: Disk;
}): HealthChecks {
  const { db, model, disk } = deps;
  return {
    database: async () => {
      await sql`select 1`.execute(db);
      return { status: 'ok' };
    },
    model: async (signal) => {
      const { status, mode, detail } = await model
        .health({ signal })
        .catch((error: unknown) => ({ status: 'down', mode: undefined, detail: String(error) }));
      return {
        status: status === 'ok' ? 'ok' : 'degraded',
        mode,
        breaker: model.breaker.state,
        ...(detail === undefined ? {} : { detail }),
      };
    },
    disk: async () => {
      const freeBytes = await disk.freeBytes();
      return {
        status: freeBytes < disk.minFreeBytes ? 'down' : 'ok',
        free_mb: Math.floor(freeBytes / MEBIBYTE),
        min_free_mb: disk.minFreeBytes / MEBIBYTE,
      };
    },
  };
}
