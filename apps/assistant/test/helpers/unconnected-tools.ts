import { createCollector } from '../../src/collector/client.ts';
import { createFiles } from '../../src/files/files.ts';
import { createMemory } from '../../src/memory/memory.ts';
import { createTools } from '../../src/tools/tools.ts';

// A tool that runs would fail here: there is no database, and no collector at this port.
const db = undefined as never;

/** All tools, for tests that only describe them to a model. */
export const unconnectedTools = createTools({
  collector: createCollector({ url: 'http://127.0.0.1:9', apiKey: '' }),
  memory: createMemory({ db }),
  files: createFiles({ db }),
  inventoryFile: undefined,
});
