// Runs an assistant in a separate process, which sends its URL to the parent process and exits with it.

import { start } from '../../src/main.ts';

const { url } = await start(process.env);
process.once('disconnect', () => process.exit());
process.send?.(url);
