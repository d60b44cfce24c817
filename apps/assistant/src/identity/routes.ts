import { html, type RateLimit, renderPage, type Server } from '@oselya/kit';
import type { FastifyContextConfig, FastifyReply, FastifyRequest, FastifySchema } from 'fastify';
import type { Kysely } from 'kysely';
import { Type } from 'typebox';
import { getSignedInUser } from '../access/guards.ts';
import { roleSchema } from '../access/permissions.ts';
import type { Config } from '../config.ts';
import { problem } from '../errors.ts';
import type { Tables } from '../tables.ts';
import { createRandomId, ID_PATTERN } from './cookies.ts';
import type { Identity } from './identity.ts';
import { MOBILE_BRIDGE_CSP, renderMobileBridgePage } from './mobile-bridge-page.ts';
import type { ClientInfo } from './sign-in.ts';

/** Marker in the user agent of the Android application's web view. Specification 000, Rules for login. */
const ANDROID_MARKER_PATTERN = /(?:^|\s)SvcAndroid\/1\.0(?:\s|$)/;

const MAX_USER_AGENT_LENGTH = 300;

export type SignInDeps = {
  config: Config;
  db: Kysely<Tables>;
  identity: Identity;
  limitLogins: RateLimit;
};

/** Prevents caches from storing the response. */
export function disableCaching(
  _request: FastifyRequest,
  reply: FastifyReply,
  done: () => void,
): void {
  void reply.header('cache-control', 'no-store');
  done();
}

/** Builds the options of a public route without HEAD that forbids caching and handles invalid input in its handler. */
export const buildPublicRouteOptions = <Schema extends FastifySchema>(
  errors: FastifyContextConfig['errors'] & {},
  schema: Schema,
) => ({
  config: { access: 'public' as const, errors },
  exposeHeadRoute: false,
  onRequest: disableCaching,
  attachValidation: true,
  schema: { tags: ['sign-in'], ...schema },
});

/** Reads the user agent and IP address of a request, for the user's list of auth sessions. */
export function readClientInfo({ headers, ip: address }: FastifyRequest): ClientInfo {
  return { user_agent: headers['user-agent']?.slice(0, MAX_USER_AGENT_LENGTH) ?? null, address };
}

/** Builds the schema of a response that redirects the browser. */
export const buildRedirectSchema = (description: string) =>
  Type.Null({ description, headers: { location: { type: 'string' } } });

/** Builds the schema of a response that is an HTML page. */
export const buildPageSchema = (description: string) => ({
  description,
  content: { 'text/html': { schema: Type.String() } },
});

/** Schema properties of a user in responses. Specification 000, Current-user object. */
export const userProperties = {
  id: Type.String(),
  email: Type.String(),
  display_name: Type.String({ description: 'The display name; empty if the provider sends none.' }),
  role: roleSchema,
  permissions: Type.Array(Type.String(), { description: 'Permission slugs.' }),
};

export const exampleUser = {
  id: 'u-1',
  email: 'olena@example.test',
  display_name: 'Olena',
  role: 'user',
  permissions: ['svc.sessions.read_own', 'svc.profiles.use'],
};

const currentUserSchema = Type.Object(userProperties, {
  $id: 'CurrentUser',
  description: 'The signed-in user.',
  examples: [exampleUser],
});

const buildParameter = (description: string) =>
  Type.Optional(Type.String({ maxLength: 8192, description }));

const callbackQuery = Type.Object({
  code: buildParameter('The authorization code.'),
  state: buildParameter('The state of the pending login.'),
  error: buildParameter('The reason why the provider does not sign the user in.'),
  iss: buildParameter('The issuer, if the provider names itself.'),
});

const logoutResponse = Type.Object(
  {
    ok: Type.Literal(true),
    logout_url: Type.Optional(
      Type.String({
        description:
          'The URL that ends the session of the browser at the provider, if IDP_END_SESSION is true.',
      }),
    ),
  },
  { examples: [{ ok: true }] },
);

/**
 * Registers `/auth/login`, `/auth/callback`, `/auth/mobile-done`, `/auth/logout` and `/auth/me`. Specification 000,
 * Authentication endpoints.
 */
export function registerSignInRoutes(
  app: Server,
  { config, identity: { cookies, signIn, signOut }, limitLogins }: SignInDeps,
): void {
  app.get(
    '/auth/login',
    buildPublicRouteOptions([429, 'provider_unavailable', 'sign_in_not_configured'], {
      summary: 'Begins a sign-in',
      description: 'An IP address may begin LOGIN_PER_MINUTE sign-ins a minute.',
      response: { 302: buildRedirectSchema('To the identity provider.') },
    }),
    async (request, reply) => {
      reply.headers(await limitLogins(request.ip));
      const isAndroid = ANDROID_MARKER_PATTERN.test(request.headers['user-agent'] ?? '');
      const browserId = cookies.browserId(request) ?? createRandomId();
      const url = await signIn.begin(isAndroid ? 'android' : 'browser', {
        browserId,
        sessionId: cookies.sessionId(request),
      });
      if (!isAndroid) cookies.setBrowserId(reply, browserId);
      // The empty fragment stops browsers from appending the current one.
      return reply.redirect(`${url}#`);
    },
  );

  app.get(
    '/auth/callback',
    buildPublicRouteOptions(
      [
        'login_not_valid',
        'login_cancelled',
        'login_refused',
        'token_exchange_failed',
        'account_without_email',
        'provider_unavailable',
      ],
      {
        summary: 'Ends a sign-in',
        querystring: callbackQuery,
        response: {
          200: buildPageSchema('A page that continues to / if the cookie is SameSite=Strict.'),
          302: buildRedirectSchema(
            'To / with the cookie; for Android to /auth/mobile-done, for a terminal to a page that asks first.',
          ),
        },
      },
    ),
    async (request, reply) => {
      if (request.validationError) throw problem('login_not_valid');
      const browserId = cookies.browserId(request);
      const { sessionId, platform, terminalSignInId } = await signIn.complete(
        request.query,
        { browserId, sessionId: cookies.sessionId(request) },
        readClientInfo(request),
      );
      if (terminalSignInId !== null) {
        // The confirmation needs the cookie for another ten minutes.
        if (browserId !== null) cookies.setBrowserId(reply, browserId);
        return reply.redirect(`/auth/terminal/confirm?request=${terminalSignInId}`);
      }
      if (platform === 'android') return reply.redirect(`/auth/mobile-done?sid=${sessionId}`);
      cookies.setSession(reply, sessionId);
      return config.SVC_AUTH_COOKIE_SAMESITE === 'strict'
        ? sendContinuePage(reply, 'Signed in', 'You are signed in', '/')
        : reply.redirect('/');
    },
  );

  app.get(
    '/auth/mobile-done',
    {
      ...buildPublicRouteOptions(['hand_over_not_valid'], {
        summary: 'Hands a session over to the Android application',
        querystring: Type.Object({
          sid: Type.String({ pattern: ID_PATTERN, description: 'The ID of the auth session.' }),
        }),
        response: { 200: buildPageSchema('The bridge page.') },
      }),
      exposeHeadRoute: true,
    },
    async (request, reply) => {
      if (request.validationError) throw problem('hand_over_not_valid');
      return reply
        .header('content-security-policy', MOBILE_BRIDGE_CSP)
        .type('text/html; charset=utf-8')
        .send(renderMobileBridgePage(request.query.sid, config.ANDROID_APP_PACKAGE));
    },
  );

  app.post(
    '/auth/logout',
    buildPublicRouteOptions(['cross_site_request', 503], {
      summary: 'Signs out',
      querystring: Type.Object({
        from: Type.Optional(
          Type.Unknown({ description: '`page`: the answer leads to the first page.' }),
        ),
      }),
      response: {
        200: {
          description:
            'The user is signed out. A request from the form of a page is answered with a page.',
          content: {
            'application/json': { schema: logoutResponse },
            'text/html': { schema: Type.String() },
          },
        },
        303: buildRedirectSchema('To /, for the form of a page.'),
      },
    }),
    async (request, reply) => {
      const sessionId = cookies.sessionId(request);
      // If the sign-out fails, the browser keeps the cookie, which a retry needs.
      const logoutUrl = sessionId === null ? undefined : await signOut.signOut(sessionId);
      if (cookies.hasSession(request)) cookies.clearSession(reply);
      if (request.query.from !== 'page') {
        return { ok: true as const, ...(logoutUrl !== undefined && { logout_url: logoutUrl }) };
      }
      // A redirect to the provider would violate the page's `form-action`.
      return logoutUrl === undefined
        ? reply.redirect('/', 303)
        : sendContinuePage(reply, 'Signed out', 'You are signed out here', logoutUrl);
    },
  );

  app.addSchema(currentUserSchema);
  app.get(
    '/auth/me',
    {
      config: { access: 'signed-in', errors: [] },
      onRequest: disableCaching,
      schema: {
        tags: ['sign-in'],
        summary: 'Returns the signed-in user',
        response: { 200: currentUserSchema },
      },
    },
    (request) => {
      const user = getSignedInUser(request);
      return { ...user, display_name: user.display_name ?? '' };
    },
  );
}

/** Sends a page that continues by itself where a redirect would lose a Strict cookie or violate `form-action`. */
function sendContinuePage(reply: FastifyReply, title: string, text: string, url: string) {
  const page = renderPage({
    title,
    head: html`<meta http-equiv="refresh" content="0; url=${url}" />`,
    body: html`<h1>${text}</h1>
      <p><a href="${url}">Continue</a></p>`,
  });
  return reply.type('text/html; charset=utf-8').send(page);
}
