import { flushCompileCache } from 'node:module';
import { start } from '../../src/main.ts';

// Starts a collector in a process that a test can kill, and sends its URL to the test.
const runningCollector = await start();
// A killed process would not write its compile cache at exit.
flushCompileCache();
process.send?.(runningCollector.url);
process.on('disconnect', () => process.exit());
