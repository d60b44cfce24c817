import type { FastifyInstance } from 'fastify';
import type { Provider } from 'oidc-provider';

/**
 * Gives oidc-provider the requests under `/oauth` and `/.well-known`, untouched: it reads the bodies
 * and writes the answers itself.
 */
export async function protocolRoutes(
  app: FastifyInstance,
  { provider }: { provider: Provider },
): Promise<void> {
  const handle = provider.callback();

  app.removeAllContentTypeParsers();
  app.addContentTypeParser('*', (_request, _payload, done) => done(null));

  for (const url of ['/oauth/*', '/.well-known/*']) {
    app.route({
      method: ['GET', 'POST', 'OPTIONS'],
      url,
      exposeHeadRoute: false,
      async handler(request, reply) {
        reply.hijack();
        await handle(request.raw, reply.raw);
      },
    });
  }
}
