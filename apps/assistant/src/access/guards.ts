import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import { problem } from '../errors.ts';
import { hasPermission, type Permission } from './permissions.ts';
import type { KnownUser, User } from './user.ts';

/** What the guard can answer on every route that is not public, for `problemAnswers` beside what the route itself can. */
export const guardRefusals = [
  'not_signed_in',
  'provider_unavailable',
  'user_without_email',
] as const;

/** Who may use a route. */
export type Access = 'public' | 'signed-in' | { role: 'admin' } | { permission: Permission };

// oxlint-disable typescript/consistent-type-definitions -- what Fastify declares can be added to by interfaces only
declare module 'fastify' {
  interface FastifyContextConfig {
    access?: Access;
    /** Whoever may send a request says so in it, and no cookie counts, so that it may come from anywhere. */
    isSigned?: boolean;
  }
  interface FastifyRequest {
    /** Set on routes that are not public, before their handlers run. See `signedIn`. */
    user: User | null;
    /** The generation of cached access that the user was resolved under. */
    generation: number;
  }
}

/**
 * Guards all routes of `app`, closed by default: each has to say in `config.access` who may use it,
 * and one that does not stops the start. Only the kit's own routes, which say that they are
 * `operational`, are open to anybody without. Specification 000, Permission check rules.
 * Requests that change something are held against the user twice: before their bodies are read, and again
 * before their handlers run, since a body can take long.
 * @param currentUser Resolves the user of a request, or makes sure that a `known` one still holds; it may
 * throw a problem of its own.
 */
export function guardRoutes(
  app: FastifyInstance,
  currentUser: (
    request: FastifyRequest,
    reply: FastifyReply,
    known?: KnownUser,
  ) => Promise<KnownUser | undefined>,
): void {
  app.decorateRequest('user', null);
  app.decorateRequest('generation', 0);

  async function admit(request: FastifyRequest, reply: FastifyReply): Promise<void> {
    const { access = 'signed-in' } = request.routeOptions.config;
    if (access === 'public') return;
    const { user, generation } = request;
    const current = await currentUser(
      request,
      reply,
      user === null ? undefined : { user, generation },
    );
    if (current === undefined) throw problem('not_signed_in');
    checkAccess(current.user, access);
    request.user = current.user;
    request.generation = current.generation;
  }

  app.addHook('onRoute', (route) => {
    const { method, url, config } = route;
    if (config?.operational === true) return;
    if (config?.access === undefined) {
      throw new Error(`Route ${String(method)} ${url} does not declare its access`);
    }
    const { access } = config;
    if (access === 'public') return;
    // OpenAPI 3.1, Security Requirement Object: the roles that a caller needs.
    const needs = typeof access === 'string' ? [] : Object.values(access);
    route.schema = { ...route.schema, security: [{ session: needs }] };
  });

  app.addHook('onRequest', async (request, reply) => {
    const { url, config } = request.routeOptions;
    // There is no route, so there is nothing to guard.
    if (url === undefined) return;
    if (config.operational === true) return;
    await admit(request, reply);
    // What one user is answered is nobody else's, and on this machine nobody's after signing out.
    if (request.user !== null) void reply.header('cache-control', 'no-store');
  });

  app.addHook('preHandler', async (request, reply) => {
    if (request.user !== null && changesSomething(request)) await admit(request, reply);
  });
}

const changesSomething = ({ method }: FastifyRequest) => method !== 'GET' && method !== 'HEAD';

/**
 * Holds what somebody asks for against who they are, for routes and socket messages alike.
 * @throws `admin_only` or `permission_missing`.
 */
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

/** The user of a request to a route that is not public. */
export function signedIn({ user }: FastifyRequest): User {
  if (user === null) throw new Error('A public route has no signed-in user');
  return user;
}
