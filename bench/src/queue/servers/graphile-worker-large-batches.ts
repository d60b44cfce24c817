import { openGraphileWorker } from './graphile-worker.ts';
import { serveQueue } from './queue.ts';

// Settings of its performance page.
serveQueue(openGraphileWorker({ localQueueSize: 500, completeJobBatchDelayMs: 0 }));
