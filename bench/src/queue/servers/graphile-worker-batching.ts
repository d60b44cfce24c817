import { CONCURRENCY } from '../concurrency.ts';
import { openGraphileWorker } from './graphile-worker.ts';
import { serveQueue } from './queue.ts';

// What its documentation recommends to begin with: one more than jobs at once.
serveQueue(openGraphileWorker({ localQueueSize: CONCURRENCY + 1, completeJobBatchDelayMs: 0 }));
