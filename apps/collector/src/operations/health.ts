import { ping } from '@oselya/db';
import type { HealthChecks } from '@oselya/kit';
import type { ModelClient } from '@oselya/model';
import type { Kysely } from 'kysely';
import type { Tables } from '../tables.ts';
import type { Disk } from '../disk.ts';
import type { StoreState } from '../images/store.ts';
import { MEBIBYTE } from '../schemas.ts';

/**
 * The checks of `GET /health`. Without the model, or the image store, payloads wait and the words can still be
 * searched, so its absence, or its silence until the signal ends the wait, degrades the service and does not end it.
 * The store is shown with the disk: Contract 4, Health, names three checks.
 */
export function createHealthChecks(deps: {
  db: Kysely<Tables>;
  model: Pick<ModelClient, 'health' | 'breaker'>;
  /** Where images, and the embedded database, are kept. */
  disk: Disk;
  imageStore: Pick<StoreState, 'answers'>;
}): HealthChecks {
  const { db, model, disk, imageStore } = deps;
  return {
    database: async () => {
      await ping(db);
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
    disk: async (signal) => {
      const [freeBytes, answers] = await Promise.all([
        disk.freeBytes(),
        imageStore.answers(signal),
      ]);
      return {
        status: freeBytes < disk.minFreeBytes ? 'down' : answers ? 'ok' : 'degraded',
        free_mb: Math.floor(freeBytes / MEBIBYTE),
        min_free_mb: disk.minFreeBytes / MEBIBYTE,
        image_store: answers ? 'ok' : 'away',
      };
    },
  };
}
