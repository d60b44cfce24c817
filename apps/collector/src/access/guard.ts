import {
  getClientNetwork,
  isCrossSiteChange,
  isLoopback,
  type RateLimit,
  type Server,
} from '@oselya/kit';
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import { problem } from '../errors.ts';
import type { ApiKey, ApiKeyStore, Scope } from './api-keys.ts';

// oxlint-disable typescript/consistent-type-definitions -- only interfaces extend Fastify's declarations
declare module 'fastify' {
  interface FastifyContextConfig {
    /** The scope that an API key needs for this route. */
    scope?: Scope;
  }
  interface FastifyRequest {
    /** The key of an authorized request; null while API keys are off. */
    apiKey: ApiKey | null;
  }
}

/** The API key as the OpenAPI document describes it. */
export const API_KEY_SCHEME = {
  type: 'http',
  scheme: 'bearer',
  description: 'An API key with the scope of the route, where `COLLECTOR_AUTH` is `required`.',
} as const;

/** How a request that changes something can be rejected before its route, for the OpenAPI document. */
export const CHANGE_REJECTIONS = [401, 403, 'cross_site_request', 'unknown_host'] as const;

const BEARER = /^Bearer +([\w.~+/-]+=*)$/i;

/**
 * Guards every route that is registered on `app` after it. A route without `config.scope` stops the start, so that none
 * is open by mistake. Contract 4, API keys.
 * @param keys Undefined while COLLECTOR_AUTH is off: every request is authorized.
 */
export function guardRoutes(
  app: FastifyInstance,
  keys: Pick<ApiKeyStore, 'verify'> | undefined,
): void {
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

/** Tells whether the request's key may act for a source. */
export function canUseSource({ apiKey }: FastifyRequest, sourceSlug: string): boolean {
  return apiKey?.source_slugs == null || apiKey.source_slugs.includes(sourceSlug);
}

/**
 * Denies a payload of a source for which the request's key may not act. Contract 4, API keys.
 * @throws ProblemError `forbidden`.
 */
export function requireSource(request: FastifyRequest, sourceSlug: string): void {
  if (canUseSource(request, sourceSlug)) return;
  throw problem('forbidden', { detail: 'This API key may not send for this source.' });
}

/** Returns the key under which a request is counted: the id of its API key, or the client's network without one. */
export function getCallerKey({ apiKey, ip }: Pick<FastifyRequest, 'apiKey' | 'ip'>): string {
  return apiKey?.id ?? getClientNetwork(ip);
}

/**
 * Returns the hook of a route that counts each request against a limit of its caller. Contract 1,
 * COLLECTOR_FULLTEXT_PER_MINUTE.
 * @throws ProblemError as the limit does.
 */
export function createRateLimitHook(limit: RateLimit) {
  return async (request: FastifyRequest, reply: FastifyReply): Promise<void> => {
    reply.headers(await limit(getCallerKey(request)));
  };
}

/**
 * Protects a collector without API keys from web pages on its users' machines: browsers let any page send requests to any
 * address, so changes from other origins are rejected.
 * @param options.onlyThisMachine Whether to reject other host names than this machine's: a website can resolve its own name
 *   to a loopback address, and its pages then share the collector's origin.
 */
export function rejectCrossSiteRequests(
  app: Pick<Server, 'addHook'>,
  { onlyThisMachine }: { onlyThisMachine: boolean },
): void {
  app.addHook('onRequest', (request, _reply, done) => {
    if (isCrossSiteChange(request)) return done(problem('cross_site_request'));
    const name = request.hostname.replaceAll(/[[\]]/g, '');
    done(onlyThisMachine && !isLoopback(name) ? problem('unknown_host') : undefined);
  });
}
