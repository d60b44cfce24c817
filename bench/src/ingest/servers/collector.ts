import { mkdtemp } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { start } from '@oselya/collector';
import { countRows, serveIngest } from './server.ts';

// Starts no worker, as in an installation with separate workers.
serveIngest(async ({ databaseUrl }) => {
  const { url } = await start({
    DATABASE_URL: databaseUrl,
    DATA_DIR: await mkdtemp(join(tmpdir(), 'oselya-bench-')),
    COLLECTOR_PORT: '0',
    COLLECTOR_WORKER: 'false',
    COLLECTOR_INGEST_PER_MINUTE: '0',
    LOG_LEVEL: 'silent',
  });
  return { url, countStored: () => countRows(databaseUrl, 'raw_data') };
});
