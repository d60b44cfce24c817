import { isCrossSiteChange } from '@oselya/kit';
import type { FastifyInstance, FastifyRequest } from 'fastify';
import { problem } from '../errors.ts';

/**
 * Refuses requests that change something when they carry the session cookie and a page of another
 * origin sent them. Without the cookie nobody's rights are used; the Android application sends the
 * cookie without being a browser. Contract 3, State-changing requests.
 */
export function refuseCrossSite(
  app: FastifyInstance,
  { baseUrl, hasSession }: { baseUrl: string; hasSession: (request: FastifyRequest) => boolean },
): void {
  app.addHook('onRequest', (request, _reply, done) => {
    const countsCookie = request.routeOptions.config.isSigned !== true && hasSession(request);
    const isRefused = countsCookie && isCrossSiteChange(request, baseUrl);
    done(isRefused ? problem('cross_site_request') : undefined);
  });
}
