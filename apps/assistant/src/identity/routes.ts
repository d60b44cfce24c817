import { html, type RateLimit, renderPage, type Server } from '@oselya/kit';
import type { FastifyContextConfig, FastifyReply, FastifyRequest, FastifySchema } from 'fastify';
import { Type } from 'typebox';
import { signedIn } from '../access/guards.ts';
import { role } from '../access/permissions.ts';
import type { Config } from '../config.ts';
import { problem } from '../errors.ts';
import { ID_PATTERN, randomId } from './cookies.ts';
import type { Identity } from './identity.ts';
import { MOBILE_BRIDGE_CSP, renderMobileBridgePage } from './mobile-bridge-page.ts';
import type { ClientNote } from './auth-sessions.ts';

/** Android's web view adds this to its user agent. Specification 000, Rules for login. */
const ANDROID = /(?:^|\s)SvcAndroid\/1\.0(?:\s|$)/;

const MAX_USER_AGENT_LENGTH = 300;

/** Dependencies of the sign-in routes. */
export type SignInDeps = { config: Config; identity: Identity; loginLimit: RateLimit };

/** Marks answers that no cache may store. */
export function neverStored(_request: FastifyRequest, reply: FastifyReply, done: () => void): void {
  void reply.header('cache-control', 'no-store');
  done();
}

/** Returns the options of a public route whose answers no cache may store, and which handles invalid input itself. */
export const publicRoute = <Schema extends FastifySchema>(
  errors: FastifyContextConfig['errors'] & {},
  schema: Schema,
) => ({
  config: { access: 'public' as const, errors },
  exposeHeadRoute: false,
  onRequest: neverStored,
  attachValidation: true,
  schema: { tags: ['sign-in'], ...schema },
});

/** Returns the user agent and address of a request, for the list of own sign-ins. */
export function clientNote({ headers, ip }: FastifyRequest): ClientNote {
  return { userAgent: headers['user-agent']?.slice(0, MAX_USER_AGENT_LENGTH) ?? null, address: ip };
}

/** Describes an answer that redirects the browser. */
export const redirectAnswer = (description: string) =>
  Type.Null({ description, headers: { location: { type: 'string' } } });

/** Describes an answer that is a page. */
export const pageAnswer = (description: string) => ({
  description,
  content: { 'text/html': { schema: Type.String() } },
});

/** The members of a user in answers. Specification 000, Current-user object. */
export const userMembers = {
  id: Type.String(),
  email: Type.String(),
  display_name: Type.String({ description: 'Empty if the provider gives no name.' }),
  role,
  permissions: Type.Array(Type.String(), { description: 'Permission slugs.' }),
};

/** An example of these members. */
export const exampleUser = {
  id: 'u-1',
  email: 'olena@example.test',
  display_name: 'Olena',
  role: 'user',
  permissions: ['svc.sessions.read_own', 'svc.profiles.use'],
};

/** Registers `/auth/*`. Specification 000, Authentication endpoints. */
export function signInRoutes(app: Server, deps: SignInDeps): void {
  loginRoute(app, deps);
  callbackRoute(app, deps);
  mobileDoneRoute(app, deps.config);
  logoutRoute(app, deps.identity);
  currentUserRoute(app);
}

function loginRoute(app: Server, { identity: { cookies, signIn }, loginLimit }: SignInDeps): void {
  app.get(
    '/auth/login',
    publicRoute([429, 'provider_unavailable', 'sign_in_not_configured'], {
      summary: 'Begins a sign-in',
      description: 'One address may begin LOGIN_PER_MINUTE of them a minute.',
      response: { 302: redirectAnswer('To the identity provider.') },
    }),
    async (request, reply) => {
      reply.headers(await loginLimit(request.ip));
      const isAndroid = ANDROID.test(request.headers['user-agent'] ?? '');
      const browserId = cookies.browserId(request) ?? randomId();
      const url = await signIn.begin(isAndroid ? 'android' : 'browser', {
        browserId,
        sessionId: cookies.sessionId(request),
      });
      if (!isAndroid) cookies.setBrowserId(reply, browserId);
      // Browsers append the current fragment to an address without one.
      return reply.redirect(`${url}#`);
    },
  );
}

const callbackParameter = (description: string) =>
  Type.Optional(Type.String({ maxLength: 8192, description }));

function callbackRoute(app: Server, { config, identity: { cookies, signIn } }: SignInDeps): void {
  app.get(
    '/auth/callback',
    publicRoute(
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
        querystring: Type.Object({
          code: callbackParameter('The authorization code.'),
          state: callbackParameter('The state of the pending login.'),
          error: callbackParameter('The reason why the provider does not sign the user in.'),
          iss: callbackParameter('The issuer, if the provider names itself.'),
        }),
        response: {
          200: pageAnswer('A page that continues to / if the cookie is SameSite=Strict.'),
          302: redirectAnswer(
            'To / with the cookie; for Android to /auth/mobile-done, for a terminal to a page that asks first.',
          ),
        },
      },
    ),
    async (request, reply) => {
      if (request.validationError) throw problem('login_not_valid');
      const browserId = cookies.browserId(request);
      const { sessionId, platform, terminalSignInId } = await signIn.complete(request.query, {
        browserId,
        sessionId: cookies.sessionId(request),
        client: clientNote(request),
      });
      if (terminalSignInId !== null) {
        // The confirmation needs the cookie for another ten minutes.
        if (browserId !== null) cookies.setBrowserId(reply, browserId);
        return reply.redirect(`/auth/terminal/confirm?request=${terminalSignInId}`);
      }
      if (platform === 'android') return reply.redirect(`/auth/mobile-done?sid=${sessionId}`);
      cookies.setSession(reply, sessionId);
      return config.SVC_AUTH_COOKIE_SAMESITE === 'strict'
        ? sendHop(reply, { title: 'Signed in', text: 'You are signed in', to: '/' })
        : reply.redirect('/');
    },
  );
}

/**
 * Sends a page that continues by itself. With a redirect from the provider the browser would not send a
 * `SameSite=Strict` cookie.
 */
function sendHop(
  reply: FastifyReply,
  { title, text, to }: Record<'title' | 'text' | 'to', string>,
) {
  return reply.type('text/html; charset=utf-8').send(
    renderPage({
      title,
      head: html`<meta http-equiv="refresh" content="0; url=${to}" />`,
      body: html`<h1>${text}</h1>
        <p><a href="${to}">Continue</a></p>`,
    }),
  );
}

function mobileDoneRoute(app: Server, config: Config): void {
  app.get(
    '/auth/mobile-done',
    {
      ...publicRoute(['hand_over_not_valid'], {
        summary: 'Hands a session over to the Android application',
        querystring: Type.Object({
          sid: Type.String({ pattern: ID_PATTERN, description: 'The auth session id.' }),
        }),
        response: { 200: pageAnswer('The bridge page.') },
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
}

const logoutAnswer = Type.Object(
  {
    ok: Type.Literal(true),
    logout_url: Type.Optional(
      Type.String({
        description:
          'With IDP_END_SESSION: the address that ends the session of the browser at the provider.',
      }),
    ),
  },
  { examples: [{ ok: true }] },
);

function logoutRoute(app: Server, { cookies, signOut }: Identity): void {
  app.post(
    '/auth/logout',
    publicRoute(['cross_site_request', 503], {
      summary: 'Signs out',
      querystring: Type.Object({
        from: Type.Optional(
          Type.Unknown({ description: '`page`: the answer leads to the first page.' }),
        ),
      }),
      response: {
        200: {
          description: 'The user is signed out. The form of a page gets a page.',
          content: {
            'application/json': { schema: logoutAnswer },
            'text/html': { schema: Type.String() },
          },
        },
        303: redirectAnswer('To /, for the form of a page.'),
      },
    }),
    async (request, reply) => {
      const sessionId = cookies.sessionId(request);
      // If this fails the browser keeps the cookie, which is needed to try again.
      const logoutUrl = sessionId === null ? undefined : await signOut.signOut(sessionId);
      if (cookies.hasSession(request)) cookies.clearSession(reply);
      if (request.query.from !== 'page') {
        return { ok: true as const, ...(logoutUrl !== undefined && { logout_url: logoutUrl }) };
      }
      // A redirect to the provider would violate the page's `form-action`.
      return logoutUrl === undefined
        ? reply.redirect('/', 303)
        : sendHop(reply, { title: 'Signed out', text: 'You are signed out here', to: logoutUrl });
    },
  );
}

const currentUser = Type.Object(userMembers, {
  $id: 'CurrentUser',
  description: 'The signed-in user.',
  examples: [exampleUser],
});

function currentUserRoute(app: Server): void {
  app.addSchema(currentUser);
  app.get(
    '/auth/me',
    {
      config: { access: 'signed-in', errors: [] },
      onRequest: neverStored,
      schema: {
        tags: ['sign-in'],
        summary: 'Returns the signed-in user',
        response: { 200: currentUser },
      },
    },
    (request) => {
      const user = signedIn(request);
      return { ...user, display_name: user.display_name ?? '' };
    },
  );
}
