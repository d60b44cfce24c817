import type { FastifyInstance } from 'fastify';
import createRouter, { type HTTPMethod } from 'find-my-way';

/**
 * Records every route that is added to a server from now on.
 * @param options.maxParamLength As in the server's own router.
 * @returns A function that returns the methods of the routes at an address, sorted.
 */
export function rememberMethods(
  app: Pick<FastifyInstance, 'addHook'>,
  options: { maxParamLength: number },
): (url: string) => string[] {
  const router = createRouter(options);
  const methods = new Set<HTTPMethod>();
  app.addHook('onRoute', ({ method, url }) => {
    // Fastify uses this router too, but its types have one more method.
    for (const one of [method].flat() as HTTPMethod[]) {
      methods.add(one);
      if (!router.hasRoute(one, url)) router.on(one, url, () => undefined);
    }
  });
  return (url) => [...methods].filter((method) => router.find(method, url) !== null).toSorted();
}
