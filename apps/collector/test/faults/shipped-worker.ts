import { startWorker } from '../../src/main.ts';

// The worker that `oselya worker` starts, in a process of its own, to be killed; its environment says where.
await startWorker();
process.send?.('works');
process.on('disconnect', () => process.exit());
