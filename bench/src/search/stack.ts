import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { EMBEDDING_MODEL } from '../listings/rows.ts';
import { startProcess } from '../process/parent.ts';
import { DIMENSIONS } from './listings.ts';
import type { ApiServer } from './servers/api.ts';
import type { ModelServer } from './servers/model.ts';

const API = new URL('servers/api.ts', import.meta.url);
const MODEL = new URL('servers/model.ts', import.meta.url);

/** A collector's API over a database of listings, with a model server; both end with the scope. */
export type Stack = {
  url: string;
  api: ReturnType<typeof startProcess<ApiServer>>;
} & AsyncDisposable;

/** Starts the API and its model server, each in a separate process. */
export async function startStack(databaseUrl: string, signal: AbortSignal): Promise<Stack> {
  await using scope = new AsyncDisposableStack();
  const folder = await mkdtemp(join(tmpdir(), 'oselya-bench-'));
  scope.defer(() => rm(folder, { recursive: true, force: true }));
  const model = scope.use(startProcess<ModelServer>(MODEL, signal));
  const api = scope.use(startProcess<ApiServer>(API, signal));
  const url = await api.call('start', {
    DATABASE_URL: databaseUrl,
    DATA_DIR: folder,
    EMBEDDING_DIMENSIONS: String(DIMENSIONS),
    COLLECTOR_FULLTEXT_PER_MINUTE: '0',
    MODEL_MODE: 'openai',
    MODEL_BASE_URL: await model.call('start', { dimensions: DIMENSIONS }),
    MODEL_CHAT: EMBEDDING_MODEL,
    MODEL_EMBEDDING: EMBEDDING_MODEL,
    LOG_LEVEL: 'silent',
  });
  const running = scope.move();
  return { url, api, [Symbol.asyncDispose]: () => running.disposeAsync() };
}
