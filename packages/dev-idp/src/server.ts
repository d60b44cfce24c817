import type { EventEmitter } from 'node:events';
import { namesOneHost } from '@oselya/kit';
import Fastify, { type FastifyBaseLogger, type FastifyInstance, LogController } from 'fastify';
import type { Provider } from 'oidc-provider';
import { LoopbackServer } from './loopback.ts';
import { icon } from './pages/icon.ts';
import { sendToFastify } from './pages/layout.ts';
import { unknownPage } from './pages/unknown.ts';

/** What {@link createServer} needs. */
export type ServerOptions = {
  issuer: string;
  provider: Provider;
  redirectUris: readonly string[];
  log: FastifyBaseLogger | undefined;
};

/** The HTTP server without its routes: it answers on this machine, under its issuer's name alone. */
export function createServer({ issuer, provider, redirectUris, log }: ServerOptions) {
  const app = Fastify({
    serverFactory: (handler) => new LoopbackServer(handler),
    logController: new LogController({ disableRequestLogging: true }),
    ...(log && { loggerInstance: log }),
  });
  logErrors(provider, app.log);
  refuseOtherHosts(app, issuer);
  app.setNotFoundHandler((_request, reply) => sendToFastify(reply, 404, unknownPage(redirectUris)));
  app.get('/favicon.ico', (_request, reply) =>
    reply.headers({ 'cache-control': 'max-age=86400' }).type('image/svg+xml').send(icon),
  );
  return app;
}

// Koa prints what it cannot answer unless somebody listens to its `error` event, which the provider's
// types leave out.
function logErrors(provider: Provider, log: FastifyBaseLogger): void {
  const application: EventEmitter = provider;
  application.on('error', (error) => log.error(error));
  provider.on('server_error', (_ctx, error) => log.error(error));
}

/**
 * A website can make its own name resolve to 127.0.0.1 and so reach this server from a visitor's
 * browser. It cannot change the `Host` header, which then carries the website's name.
 */
function refuseOtherHosts(app: FastifyInstance, issuer: string): void {
  const { host } = new URL(issuer);
  app.addHook('onRequest', (request, reply, done) => {
    if (!namesOneHost(request.raw)) {
      void reply.code(400).type('text/plain; charset=utf-8').send('Send one Host header.\n');
      return;
    }
    if (request.host === host) return done();
    reply
      .code(421)
      .type('text/plain; charset=utf-8')
      .send(`The development identity provider answers at ${issuer} only. Use that address.\n`);
  });
}
