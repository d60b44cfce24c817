import type { FastifyInstance, FastifyRequest } from 'fastify';
import { problem } from '../errors.ts';

const SAFE_METHODS = new Set(['GET', 'HEAD', 'OPTIONS']);

/**
 * Refuses requests that change something when they carry the session cookie and a browser sent them
 * from another origin. Browsers say so in `Sec-Fetch-Site`, older ones in `Origin` alone. A request
 * with neither comes from no browser, where no other site can use somebody's cookie; the Android
 * application sends such. Contract 3, State-changing requests.
 */
export function refuseCrossSite(
  app: FastifyInstance,
  { baseUrl, hasSession }: { baseUrl: string; hasSession: (request: FastifyRequest) => boolean },
): void {
  app.addHook('onRequest', (request, _reply, done) => {
    const isAllowed =
      SAFE_METHODS.has(request.method) || !hasSession(request) || isSameOrigin(request, baseUrl);
    done(isAllowed ? undefined : problem('cross_site_request'));
  });
}

/** Whether a request came from a page of this service, or from no page at all. */
export function isSameOrigin({ headers, host }: FastifyRequest, baseUrl: string): boolean {
  const site = headers['sec-fetch-site'];
  if (site !== undefined) return site === 'same-origin' || site === 'none';
  const { origin } = headers;
  if (origin === undefined) return true;
  // Behind a proxy the public origin is BASE_URL; reached directly it is the host that was asked for.
  return origin === baseUrl || URL.parse(origin)?.host === host;
}
