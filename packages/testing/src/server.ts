import { deferCleanup } from './flow.ts';
import { openServer, type ReceivedRequest } from './scripted-server.ts';

export type { ReceivedRequest, ScriptedResponse } from './scripted-server.ts';

/**
 * Starts a server with scripted responses, like {@link openServer}, and records its requests. It is closed after the
 * tests of the file.
 */
export async function startServer(handle: Parameters<typeof openServer>[0]) {
  const requests: ReceivedRequest[] = [];
  const server = await openServer((request) => {
    requests.push(request);
    return handle(request);
  });
  deferCleanup(server.close);
  return { ...server, requests };
}
