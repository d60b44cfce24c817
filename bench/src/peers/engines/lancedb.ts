import { startProcess } from '../../process/parent.ts';
import { connectHttp, type Engine, measureFolder, readRows } from '../engine.ts';
import { findPackageVersion } from '../packages.ts';
import type { EmbeddedServer } from '../servers/serve.ts';

const MODULE = new URL('../servers/lancedb.ts', import.meta.url);

/** LanceDB, behind an HTTP server of a few lines in a process with the threads of the engine. It counts no facets. */
export const engine: Engine = {
  kinds: ['words', 'filtered', 'by price', 'vector'],
  findVersion: () => findPackageVersion('@lancedb/lancedb'),
  async load({ signal, ...load }) {
    await using server = startProcess<EmbeddedServer>(MODULE, signal);
    await server.call('load', load);
  },
  async start(folder, signal) {
    const server = startProcess<EmbeddedServer>(MODULE, signal);
    return {
      urls: [await server.call('start', folder)],
      processIds: () => Promise.resolve([server.pid]),
      insert: (document) => server.call('insert', document),
      measureDisk: () => measureFolder(folder),
      [Symbol.asyncDispose]: () => server[Symbol.asyncDispose](),
    };
  },
  prepare: (question) => ({ path: '/', body: JSON.stringify(question) }),
  connect: connectHttp,
  readHits: (response) => readRows(JSON.parse(String(response))),
};
