import { startWorker } from '../../src/main.ts';

// The process of `oselya worker`, to kill; the environment has its settings.
await startWorker();
process.send?.('works');
process.on('disconnect', () => process.exit());
