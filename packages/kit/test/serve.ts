import { once } from 'node:events';
import { connect } from 'node:net';
import { after, type TestContext } from 'node:test';
import {
  createLogger,
  createServer,
  listen,
  type Server,
  type ServerOptions,
} from '../src/index.ts';

/** Creates a server that logs to `lines`. Closes the server after the tests of the file. */
export async function serve(
  options: Partial<ServerOptions> & { level?: string; lines?: string[] } = {},
): Promise<Server> {
  const { level = 'silent', lines = [], ...serverOptions } = options;
  const destination = { write: (line: string) => void lines.push(line) };
  const app = await createServer({
    log: createLogger({ level, service: 'test', destination }),
    bodyLimit: 1000,
    openapi: { title: 'Test', description: 'A test.', version: '1' },
    ...serverOptions,
  });
  after(() => app.close());
  return app;
}

/** Starts a server on a free port and returns its URL. */
export const listenOnFreePort = (app: Server) =>
  listen(app, { host: '127.0.0.1', port: 0, variable: 'PORT' });

/** Opens a connection and collects the data that the server sends. */
export async function open(url: string, context: Pick<TestContext, 'after'>) {
  const socket = connect(Number(new URL(url).port), '127.0.0.1');
  const connection = { socket, answer: '', closeEvent: once(socket, 'close') };
  socket.on('data', (chunk: Buffer) => (connection.answer += chunk.toString()));
  // The server may close the connection during a write, which must not fail the test.
  socket.on('error', () => undefined);
  context.after(() => socket.destroy());
  await once(socket, 'connect');
  return connection;
}
