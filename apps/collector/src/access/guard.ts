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

// oxlint-disable typescript/consistent-type-definitions -- Fastify's declarations can only be merged with interfaces
declare module 'fastify' {
  interface FastifyContextConfig {
    /** Scope that an API key needs for this route, or several of which it needs one. */
    scope?: Scope | readonly Scope[];
  }
  interface FastifyRequest {
    /** API key of the request. Null if API keys are off. */
    apiKey: ApiKey | null;
  }
}

/** Security scheme of API keys, for the OpenAPI document. */
export const API_KEY_SCHEME = {
  type: 'http',
  scheme: 'bearer',
  description: 'An API key with the scope of the route, if `COLLECTOR_AUTH` is `required`.',
} as const;

/** Errors that can reject a write before its route handler runs, for the OpenAPI document. */
export const CHANGE_REJECTIONS = [401, 403, 'cross_site_request', 'unknown_host'] as const;

const BEARER_PATTERN = /^Bearer +([\w.~+/-]+=*)$/i;

/**
 * Checks the API key of each request to routes that are registered on `app` later. A route without `config.scope`
 * prevents startup, because a forgotten scope must not open a route. Contract 4, API keys.
 * @param keys Store of API keys. If undefined, every request is authorized.
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
    const key = BEARER_PATTERN.exec(request.headers.authorization ?? '')?.[1];
    const apiKey = key === undefined ? undefined : await keys.verify(key);
    if (apiKey === undefined) {
      throw problem('unauthorized', { headers: { 'www-authenticate': 'Bearer' } });
    }
    const scopes = [request.routeOptions.config.scope ?? []].flat();
    if (!scopes.some((scope) => apiKey.scopes.includes(scope))) {
      const names = scopes.map((scope) => `"${scope}"`).join(' or ');
      throw problem('forbidden', { detail: `This API key lacks the scope ${names}.` });
    }
    request.apiKey = apiKey;
  });
}

/** Returns whether the API key of a request has a scope; true if API keys are off. */
export function hasScope({ apiKey }: FastifyRequest, scope: Scope): boolean {
  return apiKey === null || apiKey.scopes.includes(scope);
}

/** Returns whether the API key of a request may send payloads for a source; true if API keys are off. */
export function canUseSource({ apiKey }: FastifyRequest, sourceSlug: string): boolean {
  return apiKey?.source_slugs == null || apiKey.source_slugs.includes(sourceSlug);
}

/**
 * Rejects a request whose API key may not send payloads for a source. Contract 4, API keys.
 * @throws ProblemError `forbidden`.
 */
export function requireSource(request: FastifyRequest, sourceSlug: string): void {
  if (canUseSource(request, sourceSlug)) return;
  throw problem('forbidden', { detail: 'This API key may not send payloads for this source.' });
}

/**
 * Rejects a request for a new API key with sources that the API key of the request lacks, so that no key can create a
 * less limited one.
 * @param sources Sources of the new key. If undefined, all sources.
 * @throws ProblemError `forbidden`.
 */
export function requireSources(
  request: FastifyRequest,
  sources: readonly string[] | undefined,
): void {
  const isAllowed =
    sources === undefined
      ? request.apiKey?.source_slugs == null
      : sources.every((source) => canUseSource(request, source));
  if (isAllowed) return;
  throw problem('forbidden', { detail: 'This API key may only create keys for its own sources.' });
}

/** Returns the rate-limit key of a request: the ID of its API key, or the client's network. */
export function getCallerKey({ apiKey, ip }: Pick<FastifyRequest, 'apiKey' | 'ip'>): string {
  return apiKey?.id ?? getClientNetwork(ip);
}

const USER_PATTERN = /^[\w-]{1,64}$/;

/**
 * Returns the rate-limit key of a user whom a trusted caller names in `X-On-Behalf-Of`, or else of the caller. Trusted
 * are API keys with the scope `on_behalf` and, without API keys, loopback addresses.
 */
function getUserKey(request: FastifyRequest): string {
  const { apiKey, ip, headers } = request;
  const isTrusted = apiKey === null ? isLoopback(ip) : hasScope(request, 'on_behalf');
  const user = headers['x-on-behalf-of'];
  const isUserNamed = isTrusted && typeof user === 'string' && USER_PATTERN.test(user);
  return isUserNamed ? `${getCallerKey(request)} ${user}` : getCallerKey(request);
}

/** Creates a route hook that limits the request rate of each user. Contract 1, COLLECTOR_FULLTEXT_PER_MINUTE. */
export function createRateLimitHook(limit: RateLimit) {
  return async (request: FastifyRequest, reply: FastifyReply): Promise<void> => {
    reply.headers(await limit(getUserKey(request)));
  };
}

/**
 * Rejects writes from web pages of other origins, because without API keys nothing else stops them.
 * @param options.isLoopbackOnly Whether to reject every request for a host name that is not a loopback name. This stops
 *   DNS rebinding, by which the host name of a website resolves to the collector.
 */
export function rejectCrossSiteRequests(
  app: Pick<Server, 'addHook'>,
  { isLoopbackOnly }: { isLoopbackOnly: boolean },
): void {
  app.addHook('onRequest', (request, _reply, done) => {
    if (isCrossSiteChange(request)) return done(problem('cross_site_request'));
    const isForeignHost = isLoopbackOnly && !isLoopback(request.hostname);
    done(isForeignHost ? problem('unknown_host') : undefined);
  });
}
