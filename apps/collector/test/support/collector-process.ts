import { flushCompileCache } from 'node:module';
import { start } from '../../src/main.ts';

// A collector in a process of its own, so that a test can kill it; the test knows it by its address.
const running = await start();
// Whoever is killed writes nothing at its end.
flushCompileCache();
process.send?.(running.url);
process.on('disconnect', () => process.exit());
