import type { Config } from './config.ts';
import { createPipeline } from './pipeline/pipeline.ts';
import { createInlineJobs, type InlineJobs } from './queue/inline.ts';
import type { ProcessJob } from './queue/run-job.ts';
import type { Services } from './services.ts';

/** What is done with a job, be it a worker's or a request's. */
export function openPipeline(config: Config, services: Services): ProcessJob {
  const { database, model, images, metrics, log } = services;
  const modelTimeoutMs = config.MODEL_TIMEOUT_MS;
  return createPipeline({ db: database.db, model, images, metrics, log, modelTimeoutMs });
}

/** The jobs that run for whoever waits for them. */
export function openInlineJobs(config: Config, services: Services): InlineJobs {
  const { database, metrics, log } = services;
  const leaseMs = config.COLLECTOR_LEASE_SECONDS * 1000;
  const process = openPipeline(config, services);
  return createInlineJobs({ db: database.db, process, metrics, log, leaseMs });
}
