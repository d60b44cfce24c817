import type { FastifyInstance } from 'fastify';
import createRouter, { type HTTPMethod } from 'find-my-way';

/**
 * Remembers every route that is added to a server after it.
 * @param options.maxParamLength As the server's own router has it.
 * @returns A function that finds the methods of the routes that a request's address leads to, sorted.
 */
export function rememberMethods(
  app: Pick<FastifyInstance, 'addHook'>,
  options: { maxParamLength: number },
): (url: string) => string[] {
  const router = createRouter(options);
  const methods = new Set<HTTPMethod>();
  app.addHook('onRoute', ({ method, url }) => {
    // It is the router of Fastify, whose types know one method more.
    for (const one of [method].flat() as HTTPMethod[]) {
      methods.add(one);
      if (!router.hasRoute(one, url)) router.on(one, url, () => undefined);
    }
  });
  return (url) => [...methods].filter((method) => router.find(method, url) !== null).toSorted();
}
