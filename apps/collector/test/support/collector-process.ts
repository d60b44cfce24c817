import { flushCompileCache } from 'node:module';
import { start } from '../../src/main.ts';

// A collector process that a test can kill; it prints its address.
const running = await start();
// A killed process writes nothing.
flushCompileCache();
process.send?.(running.url);
process.on('disconnect', () => process.exit());
