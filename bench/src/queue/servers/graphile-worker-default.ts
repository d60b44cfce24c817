import { openGraphileWorker } from './graphile-worker.ts';
import { serveQueue } from './queue.ts';

serveQueue(openGraphileWorker());
