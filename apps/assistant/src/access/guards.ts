import { isCrossSiteChange } from '@oselya/kit';
import type { FastifyInstance, FastifyReply, FastifyRequest, RouteOptions } from 'fastify';
import { type ErrorCode, problem, problemResponses } from '../errors.ts';
import { hasPermission, type ResolvedUser, type Permission, type User } from './permissions.ts';

const guardErrorCodes = [
  'not_signed_in',
  'provider_unavailable',
  'sign_in_not_configured',
  'user_without_email',
] as const;

export type Access = 'public' | 'signed-in' | { role: 'admin' } | { permission: Permission };

// oxlint-disable typescript/consistent-type-definitions -- Fastify's declarations can only be merged with interfaces
declare module 'fastify' {
  interface FastifyContextConfig {
    access?: Access;
    /** Error codes or statuses of the route. The guard adds access and input errors. */
    errors?: readonly (ErrorCode | number)[];
    /** Whether a signature authenticates requests. Cookies and origins are then ignored. */
    isSigned?: boolean;
  }
  interface FastifyRequest {
    /** Signed-in user, set before the handler runs; null on public routes. See `getSignedInUser`. */
    user: User | null;
    generation: number;
  }
}

/**
 * Adds access checks to all routes of `app`. Each route declares `config.access`, except the kit's `operational`
 * routes. A state-changing request with the session cookie must come from this origin. Its user is checked again after
 * the body arrives, because uploads can be slow. Specification 000, Permission check rules; Contract 3.
 */
export function guardRoutes(
  app: FastifyInstance,
  {
    baseUrl,
    hasSession,
    resolveUser,
  }: {
    baseUrl: string;
    hasSession: (request: FastifyRequest) => boolean;
    /** Resolves the user of a request, or checks that `knownUser` is still current. */
    resolveUser: (
      request: FastifyRequest,
      reply: FastifyReply,
      knownUser?: ResolvedUser,
    ) => Promise<ResolvedUser | undefined>;
  },
): void {
  app.decorateRequest('user', null);
  app.decorateRequest('generation', 0);

  async function requireAccess(request: FastifyRequest, reply: FastifyReply): Promise<void> {
    const { access = 'signed-in' } = request.routeOptions.config;
    if (access === 'public') return;
    const { user, generation } = request;
    const knownUser = user === null ? undefined : { user, generation };
    const resolvedUser = await resolveUser(request, reply, knownUser);
    if (resolvedUser === undefined) throw problem('not_signed_in');
    checkAccess(resolvedUser.user, access);
    request.user = resolvedUser.user;
    request.generation = resolvedUser.generation;
  }

  app.addHook('onRoute', describeRoute);

  app.addHook('onRequest', async (request, reply) => {
    const { url, config } = request.routeOptions;
    const isCookieUsed = config.isSigned !== true && hasSession(request);
    if (isCookieUsed && isCrossSiteChange(request, baseUrl)) throw problem('cross_site_request');
    // Unknown routes have no URL and declare no access.
    if (url === undefined || config.operational === true) return;
    await requireAccess(request, reply);
    if (request.user !== null) void reply.header('cache-control', 'no-store');
  });

  app.addHook('preHandler', async (request, reply) => {
    if (request.user !== null && isUnsafeMethod(request.method))
      await requireAccess(request, reply);
  });
}

const isUnsafeMethod = (method: string) => method !== 'GET' && method !== 'HEAD';

/** Adds the security requirement and the error responses to a route's schema. Throws if it declares no access. */
function describeRoute(route: RouteOptions): void {
  const { method, url, config, schema } = route;
  if (config?.operational === true) return;
  if (config?.access === undefined) {
    throw new Error(`Route ${String(method)} ${url} does not declare its access`);
  }
  const { access, errors } = config;
  const roles = typeof access === 'string' ? [] : Object.values(access);
  const errorCodes = new Set<ErrorCode | number>([
    ...listAccessErrors(access, route),
    ...listInputErrors(route),
  ]);
  route.schema = {
    ...schema,
    ...(access !== 'public' && { security: [{ session: roles }] }),
    ...(errors && {
      response: {
        ...problemResponses(...errorCodes.union(new Set(errors))),
        ...(schema?.response as object),
      },
    }),
  };
}

function* listAccessErrors(access: Access, { method }: RouteOptions): Iterable<ErrorCode> {
  if (access === 'public') return;
  yield* guardErrorCodes;
  if (isUnsafeMethod(String(method))) yield 'cross_site_request';
  if (access !== 'signed-in') yield 'role' in access ? 'admin_only' : 'permission_missing';
}

function listInputErrors({ schema, config, attachValidation }: RouteOptions): number[] {
  if (config?.isSigned === true) return [413, 415];
  if (schema?.body !== undefined) return [400, 413, 415, 422];
  const hasInput = schema?.querystring !== undefined || schema?.params !== undefined;
  return hasInput && attachValidation !== true ? [422] : [];
}

/** Checks that a user has the required access, or throws `admin_only` or `permission_missing`. */
export function checkAccess(user: User, access: Exclude<Access, 'public'>): void {
  if (access === 'signed-in') return;
  if ('role' in access) {
    if (user.role !== access.role) throw problem('admin_only');
  } else if (!hasPermission(user, access.permission)) {
    throw problem('permission_missing', {
      detail: `This needs the permission ${access.permission}. Ask an administrator.`,
    });
  }
}

/** Returns the user of a request to a route that is not public. */
export function getSignedInUser({ user }: FastifyRequest): User {
  if (user === null) throw new Error('A public route has no signed-in user');
  return user;
}
