import type { Server } from '@oselya/kit';
import type { ModelClient } from '@oselya/model';
import type { Kysely } from 'kysely';
import type { Tables } from '../tables.ts';
import { archiveRoutes } from './archive/routes.ts';
import type { ArchiveCheck } from './archive/check.ts';
import type { ReadQueue } from '../queue/figures.ts';
import { queueRoutes } from './queue-routes.ts';
import type { RawCleanup } from './raw/cleanup.ts';
import { createRetry } from './raw/retry.ts';
import { rawRoutes } from './raw/routes.ts';

/**
 * The routes of those who run the collector. Contract 4, Operations.
 * @param deps.onRetried Called when payloads were put back in the queue.
 */
export function operationRoutes(
  app: Server,
  deps: {
    db: Kysely<Tables>;
    model: Pick<ModelClient, 'breaker'>;
    readQueue: ReadQueue;
    archiveCheck: ArchiveCheck;
    rawCleanup: RawCleanup;
    onRetried: () => void;
  },
): void {
  const { db, model, readQueue, archiveCheck, rawCleanup, onRetried } = deps;
  queueRoutes(app, { readQueue, model });
  rawRoutes(app, { db, retry: createRetry({ db, onRetried }), cleanup: rawCleanup });
  archiveRoutes(app, { check: archiveCheck });
}
