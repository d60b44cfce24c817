import { createServer, type RequestListener } from 'node:http';
import type { AddressInfo } from 'node:net';
import { after } from 'node:test';
import { promisify } from 'node:util';

/** A server of the test on a free port of the loopback; it ends with the file's tests. */
export async function startServer(listener: RequestListener, host = '127.0.0.1') {
  const server = createServer(listener);
  await new Promise<void>((resolve) => {
    server.listen(0, host, resolve);
  });
  after(() => {
    server.close();
    server.closeAllConnections();
  });
  const { port } = server.address() as AddressInfo;
  return {
    url: `http://${host}:${port}`,
    /** How many connections to it are open. */
    connections: promisify(server.getConnections.bind(server)),
  };
}

/** The address of one of which nothing else is asked. */
export async function serve(listener: RequestListener, host?: string): Promise<string> {
  return (await startServer(listener, host)).url;
}
