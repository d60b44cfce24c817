import { createLogger, createServer, type Server } from '@oselya/kit';
import { deferCleanup } from '@oselya/testing';
import { createUser } from './people.ts';

/** Creates a silent server without routes, which closes after the test file. */
export async function createTestServer(): Promise<Server> {
  const server = await createServer({
    log: createLogger({ level: 'silent', service: 'test' }),
    bodyLimit: 1024,
    openapi: { title: 'Test', description: 'A test.', version: '1' },
  });
  deferCleanup(() => {
    server.server.closeAllConnections();
    return server.close();
  });
  return server;
}

/** Creates a test server that takes the signed-in user from the header `x-user`. */
export async function createUserServer(): Promise<Server> {
  const server = await createTestServer();
  server.decorateRequest('user', null);
  server.addHook('onRequest', (request, _reply, done) => {
    request.user = createUser(String(request.headers['x-user']));
    done();
  });
  return server;
}
