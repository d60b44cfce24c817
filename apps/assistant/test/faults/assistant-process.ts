// The assistant as a process, for tests that kill it. It tells its parent where it listens, and ends
// with it.

import { start } from '../../src/main.ts';

const { url } = await start(process.env);
process.once('disconnect', () => process.exit());
process.send?.(url);
