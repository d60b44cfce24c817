import { startProcess } from '../../process/parent.ts';
import { connectHttp, type Engine, measureFolder, readRows } from '../engine.ts';
import type { EmbeddedServer } from '../servers/serve.ts';

/**
 * Returns a library as an engine, behind a small HTTP server.
 * @param options.name Name of its module in `servers`.
 * @param options.processes Number of processes, over which the clients are spread.
 */
export function createEmbeddedEngine({
  name,
  processes,
  ...traits
}: Pick<Engine, 'kinds' | 'findVersion'> & { name: string; processes: number }): Engine {
  const startEmbedded = (signal: AbortSignal) =>
    startProcess<EmbeddedServer>(new URL(`../servers/${name}.ts`, import.meta.url), signal);
  return {
    ...traits,
    async load({ signal, ...load }) {
      await using server = startEmbedded(signal);
      await server.call('load', load);
    },
    async start(folder, signal) {
      await using scope = new AsyncDisposableStack();
      const servers = Array.from({ length: processes }, () => scope.use(startEmbedded(signal)));
      const urls = await Promise.all(servers.map((server) => server.call('start', folder)));
      const runningScope = scope.move();
      return {
        urls,
        processIds: () => Promise.resolve(servers.map(({ pid }) => pid)),
        measureDisk: () => measureFolder(folder),
        insert: async (document) => servers[0]?.call('insert', document),
        [Symbol.asyncDispose]: () => runningScope.disposeAsync(),
      };
    },
    prepare: (question) => ({ path: '/', body: JSON.stringify(question) }),
    connect: connectHttp,
    readHits: (response) => readRows(JSON.parse(String(response))),
  };
}
