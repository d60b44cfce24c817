import { mkdir } from 'node:fs/promises';
import { createLogger } from '@oselya/kit';
import { readConfig } from '../config.ts';
import {
  type BackfillOptions,
  type BackfillReport,
  backfillEmbeddings,
} from '../embeddings/backfill.ts';
import { keepCompleted } from '../reprocess/again.ts';
import { createReprocessPictures, type ReprocessPictures } from '../reprocess/images.ts';
import { createReprocess, type Reprocess } from '../reprocess/reprocess.ts';
import { openInlineJobs, openServices, type Shared } from '../services.ts';

/** What operators do with what is stored already. */
export type Maintenance = AsyncDisposable & {
  backfillEmbeddings(options: BackfillOptions): Promise<BackfillReport>;
  reprocess: Reprocess;
  reprocessPictures: ReprocessPictures;
  /** How many listings may be at work at once. */
  parallel: number;
};

/** What has begun to be written ends in so much time. */
const SHUTDOWN_MS = 60_000;

/**
 * Opens the database and the model of the configuration for a command: nothing is served, and nothing is
 * taken off the queue. It logs nothing, since the command tells the person who gave it.
 * @throws ConfigError, StartError, DatabaseError: each for the person who gives the command.
 */
export async function openMaintenance(
  env: NodeJS.ProcessEnv,
  shared: Shared = {},
): Promise<Maintenance> {
  const config = readConfig(env, { api: false });
  await mkdir(config.DATA_DIR, { recursive: true });
  const log = shared.log ?? createLogger({ level: 'silent', service: 'collector' });
  await using opened = new AsyncDisposableStack();
  const services = await openServices(config, { ...shared, log });
  opened.defer(services.close);
  const { model, images } = services;
  const { db } = services.database;
  const leaseMs = config.COLLECTOR_LEASE_SECONDS * 1000;
  const parallel = config.COLLECTOR_WORKERS;
  const process = keepCompleted(db, services.process);
  const jobs = openInlineJobs(config, { ...services, process });
  opened.defer(() => jobs.close({ timeoutMs: SHUTDOWN_MS }));
  const running = opened.move();
  return {
    backfillEmbeddings: (options) => backfillEmbeddings({ db, model }, options),
    reprocess: createReprocess({ db, model, jobs, leaseMs, parallel }),
    reprocessPictures: createReprocessPictures({ db, images, jobs, leaseMs, parallel }),
    parallel,
    [Symbol.asyncDispose]: () => running.disposeAsync(),
  };
}
