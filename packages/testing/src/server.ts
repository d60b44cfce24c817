import { deferCleanup } from './flow.ts';
import { openServer } from './scripted-server.ts';

export type { ReceivedRequest, ScriptedResponse } from './scripted-server.ts';

/** Starts a server with scripted responses, like {@link openServer}. It is closed after the tests of the file. */
export async function startServer(...args: Parameters<typeof openServer>) {
  const server = await openServer(...args);
  deferCleanup(server.close);
  return server;
}
