import { startProcess } from '../../process/parent.ts';
import { connectHttp, type Engine, measureFolder, readRows } from '../engine.ts';
import type { EmbeddedServer } from '../servers/serve.ts';

const MODULE = new URL('../servers/fts5.ts', import.meta.url);
/** A search of SQLite uses one core, so there is a process for each. */
const PROCESSES = 2;

/** SQLite's FTS5 of Node, behind an HTTP server of a few lines in each of two processes. */
export const engine: Engine = {
  kinds: ['words', 'filtered', 'by price', 'facets'],
  findVersion: () => Promise.resolve(process.versions['sqlite']),
  async load({ signal, ...load }) {
    await using server = startProcess<EmbeddedServer>(MODULE, signal);
    await server.call('load', load);
  },
  async start(folder, signal) {
    await using scope = new AsyncDisposableStack();
    const servers = Array.from({ length: PROCESSES }, () =>
      scope.use(startProcess<EmbeddedServer>(MODULE, signal)),
    );
    const urls = await Promise.all(servers.map((server) => server.call('start', folder)));
    const running = scope.move();
    return {
      urls,
      processIds: () => Promise.resolve(servers.map(({ pid }) => pid)),
      insert: async (document) => servers[0]?.call('insert', document),
      measureDisk: () => measureFolder(folder),
      [Symbol.asyncDispose]: () => running.disposeAsync(),
    };
  },
  prepare: (question) => ({ path: '/', body: JSON.stringify(question) }),
  connect: connectHttp,
  readHits: (response) => readRows(JSON.parse(String(response))),
};
