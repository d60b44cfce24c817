import type { TestDatabase } from '@oselya/db/testing';
import type { Dispatcher } from 'undici';
import type { Tables } from '../../src/tables.ts';
import { temporaryFiles } from './form.ts';
import { openDescriptors } from './raw-http.ts';
import { until } from './until.ts';

/**
 * Notes what this process has open before something goes wrong. What is opened once and stays, such as the
 * folder of its temporary files, has to be open by then.
 * @param options.dataDir The collector's DATA_DIR.
 * @param options.host Whom pictures are fetched from.
 * @param options.known How many further descriptors there are by right, at any time.
 * @returns Waits until there is no temporary file, no connection to the host, and no descriptor that was not
 *   there before. What the pool keeps open to the database, and the test's own `fetch`, is none.
 */
export async function watchLeftovers(options: {
  database: Pick<TestDatabase<Tables>, 'pool' | 'url'>;
  dataDir: string;
  host?: { connections: () => Promise<number> };
  known?: () => number;
}): Promise<() => Promise<void>> {
  const { database, dataDir, host, known = () => 0 } = options;
  const pooled = () => (database.url === undefined ? 0 : database.pool.totalCount);
  const descriptors = async () => (await openDescriptors()) - pooled() - known();
  const before = await endIdleConnections().then(descriptors);
  return async () => {
    await endIdleConnections();
    await until('no temporary file', async () => (await temporaryFiles(dataDir)).length === 0);
    await until(
      'no connection to the host',
      async () => host === undefined || (await host.connections()) === 0,
    );
    await until('no further descriptor', async () => (await descriptors()) <= before);
  };
}

/** Where Node keeps what `fetch` sends requests by. */
const DISPATCHER = Symbol.for('undici.globalDispatcher.1');

/** Ends the connections that `fetch` would keep for a minute: how many there are is up to chance. */
async function endIdleConnections(): Promise<void> {
  // Node's own class, which `import` does not give; there is none before the first request.
  const dispatcher = Reflect.get(globalThis, DISPATCHER) as Dispatcher | undefined;
  if (dispatcher === undefined) return;
  const Class = dispatcher.constructor as new () => Dispatcher;
  Reflect.set(globalThis, DISPATCHER, new Class());
  await dispatcher.close();
}
