import { startProcess } from '../process/parent.ts';
import type { Running } from '../load/variant.ts';
import type { Server } from '../process/server.ts';

/**
 * Starts a peer in a separate process. No peer calls another service.
 * @param file The module of its process, in servers/.
 * @param settings What that module takes.
 * @param signIn Signs users in at an address and gives what they ask for.
 */
export async function startPeer(
  { file, settings, signal }: { file: string; settings: object; signal: AbortSignal },
  signIn: (url: string) => Promise<Running['targets']>,
): Promise<Running> {
  await using scope = new AsyncDisposableStack();
  const module = new URL(`servers/${file}`, import.meta.url);
  const process = scope.use(startProcess<Server<object>>(module, signal));
  const url = await process.call('start', settings);
  const targets = await signIn(url);
  const held = scope.move();
  return {
    url,
    targets,
    counters: async () => ({ cpuMs: await process.call('cpuMs'), calls: 0 }),
    [Symbol.asyncDispose]: () => held.disposeAsync(),
  };
}
