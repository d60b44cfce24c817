import { CONCURRENCY } from '../concurrency.ts';
import { openGraphileWorker } from './graphile-worker.ts';
import { serveQueue } from './queue.ts';

// Initial value of its documentation: one more than concurrent jobs.
serveQueue(openGraphileWorker({ localQueueSize: CONCURRENCY + 1, completeJobBatchDelayMs: 0 }));
