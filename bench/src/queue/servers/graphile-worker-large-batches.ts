import { openGraphileWorker } from './graphile-worker.ts';
import { serveQueue } from './queue.ts';

// As its page on performance is measured.
serveQueue(openGraphileWorker({ localQueueSize: 500, completeJobBatchDelayMs: 0 }));
