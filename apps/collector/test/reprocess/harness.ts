import { deferCleanup } from '@oselya/testing';
import type { Kysely } from 'kysely';
import type { ModelClient } from '@oselya/model';
import { Registry } from 'prom-client';
import type { Extraction } from '../../src/listing/fields.ts';
import type { Tables } from '../../src/tables.ts';
import { createMetrics } from '../../src/metrics.ts';
import { createPipeline } from '../../src/pipeline/pipeline.ts';
import { createJobRunner } from '../../src/queue/job-runner.ts';
import {
  createReprocessService,
  type ExtractionOutcome,
  type RepeatedExtraction,
  type Reprocess,
} from '../../src/reprocess/reprocess.ts';
import type { ListingSelection } from '../../src/reprocess/repository.ts';
import { createCountingModel, log, emptyImageService } from '../support/pipeline.ts';

/** Creates a model with a different name, whose extractions differ by `change`: by default in the number of rooms. */
export function createBetterModel(
  change: (read: Extraction) => Partial<Extraction> = () => ({ rooms: 9 }),
) {
  const mock = createCountingModel();
  const generateObject: ModelClient['generateObject'] = async (request) => {
    const answer = await mock.generateObject(request);
    Object.assign(answer.value, change(answer.value as Extraction));
    return { ...answer, model: 'better-2026' };
  };
  return { ...mock, chatModel: 'better', generateObject };
}

/** Opens a pipeline and a runner for jobs that reprocess listings. The runner closes after the tests. */
export function openInlineJobs(
  db: Kysely<Tables>,
  model: ReturnType<typeof createCountingModel>,
  images = emptyImageService,
) {
  const metrics = createMetrics(new Registry());
  const process = createPipeline({ db, images, model, metrics, log, modelTimeoutMs: 10_000 });
  const jobs = createJobRunner({ db, metrics, log, leaseMs: 60_000 });
  deferCleanup(() => jobs.close({ timeoutMs: 1000 }));
  return { jobs, process };
}

/** Opens the service of `oselya reprocess`. */
export function openReprocess(
  db: Kysely<Tables>,
  model: ReturnType<typeof createCountingModel>,
  images = emptyImageService,
): Reprocess {
  const jobs = openInlineJobs(db, model, images);
  return createReprocessService({ db, model, ...jobs, leaseMs: 60_000, parallel: 4 });
}

/** Extracts all selected listings again. */
export async function readAll(
  reprocess: Reprocess,
  selection: ListingSelection = {},
  limit = 1000,
  dryRun = false,
): Promise<ExtractionOutcome[]> {
  const { signal } = new AbortController();
  return Array.fromAsync(reprocess.read(selection, { limit, signal, dryRun }));
}

/** Returns the outcomes of successful extractions. */
export const filterExtracted = (outcomes: readonly ExtractionOutcome[]): RepeatedExtraction[] =>
  outcomes.filter((extraction) => extraction.outcome === 'read');
