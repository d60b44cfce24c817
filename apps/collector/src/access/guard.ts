import type { FastifyInstance, FastifyRequest } from 'fastify';
import { problem } from '../errors.ts';
import type { ApiKey, ApiKeys, Scope } from './api-keys.ts';

// oxlint-disable typescript/consistent-type-definitions -- what Fastify declares can be added to by interfaces only
declare module 'fastify' {
  interface FastifyContextConfig {
    /** What an API key needs in order to use this route. */
    scope?: Scope;
  }
  interface FastifyRequest {
    /** The key of a request that was let through; null while API keys are off. */
    apiKey: ApiKey | null;
  }
}

/** How callers show their key, for the OpenAPI document. */
export const API_KEY_SCHEME = {
  type: 'http',
  scheme: 'bearer',
  description: 'An API key with the scope of the route, where `COLLECTOR_AUTH` is `required`.',
} as const;

const BEARER = /^Bearer +([\w.~+/-]+=*)$/i;

/**
 * Guards every route that is registered on `app` after it: each must say in `config.scope` what it
 * needs, and a route that does not stops the start, so that none is open because it was forgotten.
 * Contract 4, API keys.
 * @param keys Undefined while COLLECTOR_AUTH is off: everything is let through.
 */
export function guardRoutes(app: FastifyInstance, keys: Pick<ApiKeys, 'verify'> | undefined): void {
  app.decorateRequest('apiKey', null);
  app.addHook('onRoute', (route) => {
    const { method, url, config } = route;
    if (config?.scope === undefined) {
      throw new Error(`Route ${String(method)} ${url} does not declare its scope`);
    }
    route.schema = { ...route.schema, security: [{ api_key: [] }] };
  });
  if (keys === undefined) return;
  app.addHook('onRequest', async (request) => {
    const key = BEARER.exec(request.headers.authorization ?? '')?.[1];
    const apiKey = key === undefined ? undefined : await keys.verify(key);
    if (apiKey === undefined) {
      throw problem('unauthorized', { headers: { 'www-authenticate': 'Bearer' } });
    }
    const scope = request.routeOptions.config.scope;
    if (scope === undefined || !apiKey.scopes.includes(scope)) {
      throw problem('forbidden', { detail: `This API key lacks the scope "${scope}".` });
    }
    request.apiKey = apiKey;
  });
}

/** Whether the request's key may act for a source. */
export function mayUseSource({ apiKey }: FastifyRequest, sourceSlug: string): boolean {
  return apiKey?.source_slugs == null || apiKey.source_slugs.includes(sourceSlug);
}

/**
 * Refuses a payload of a source that the request's key may not act for. Contract 4, API keys.
 * @throws ProblemError `forbidden`.
 */
export function requireSource(request: FastifyRequest, sourceSlug: string): void {
  if (mayUseSource(request, sourceSlug)) return;
  throw problem('forbidden', { detail: 'This API key may not send for this source.' });
}
