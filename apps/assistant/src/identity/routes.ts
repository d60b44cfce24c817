import { html, type RateLimit, renderPage, type Server } from '@oselya/kit';
import type { FastifyReply } from 'fastify';
import { Type } from 'typebox';
import { guardRefusals, signedIn } from '../access/guards.ts';
import type { Config } from '../config.ts';
import { problem, problemAnswers } from '../errors.ts';
import type { Identity } from './identity.ts';
import { randomId } from './ids.ts';
import { clientNote, neverStored } from './http.ts';
import { MOBILE_DONE_CSP, mobileDonePage } from './mobile-done.ts';
import {
  callbackQuery,
  currentUserSchema,
  logoutAnswer,
  logoutQuery,
  mobileDoneQuery,
  pageAnswer,
  redirectAnswer,
} from './schemas.ts';
import { confirmationOf } from './terminal/routes.ts';

/** Android's web view names itself beside the browser it is made of. Specification 000, login rule 2. */
const ANDROID = /(?:^|\s)SvcAndroid\/1\.0(?:\s|$)/;

const tags = ['sign-in'];

type Deps = { config: Config; identity: Identity; loginLimit: RateLimit };

/** `/auth/*`. Specification 000, Authentication endpoints. */
export function identityRoutes(app: Server, deps: Deps): void {
  app.addSchema(currentUserSchema);
  loginRoute(app, deps);
  callbackRoute(app, deps);
  mobileDoneRoute(app, deps.config);
  logoutRoute(app, deps.identity);
  currentUserRoute(app);
}

function loginRoute(app: Server, { identity: { cookies, signIn }, loginLimit }: Deps): void {
  app.get(
    '/auth/login',
    {
      config: { access: 'public' },
      exposeHeadRoute: false,
      onRequest: neverStored,
      schema: {
        tags,
        summary: 'Begins a sign-in',
        description: 'One address may begin LOGIN_PER_MINUTE of them a minute.',
        response: {
          302: redirectAnswer('To the identity provider.'),
          ...problemAnswers(429, 'provider_unavailable', 'sign_in_not_configured'),
        },
      },
    },
    async (request, reply) => {
      reply.headers(await loginLimit(request.ip));
      const isAndroid = ANDROID.test(request.headers['user-agent'] ?? '');
      const browserId = cookies.browserId(request) ?? randomId();
      const url = await signIn.begin(isAndroid ? 'android' : 'browser', {
        browserId,
        sessionId: cookies.sessionId(request),
      });
      if (!isAndroid) cookies.setBrowserId(reply, browserId);
      // Without a fragment of its own a browser would carry over the one that it came with.
      return reply.redirect(`${url}#`);
    },
  );
}

function callbackRoute(app: Server, { config, identity }: Deps): void {
  const { cookies, signIn } = identity;
  app.get(
    '/auth/callback',
    {
      config: { access: 'public' },
      exposeHeadRoute: false,
      onRequest: neverStored,
      // A query that is not valid belongs to no pending login: that is 400 here.
      attachValidation: true,
      schema: {
        tags,
        summary: 'Ends a sign-in',
        querystring: callbackQuery,
        response: {
          200: pageAnswer(
            'A page that goes on to / by itself, where the cookie is SameSite=Strict.',
          ),
          302: redirectAnswer(
            'To / with the cookie; for Android to /auth/mobile-done, for a terminal to a page that asks first.',
          ),
          ...problemAnswers(
            'login_not_valid',
            'login_cancelled',
            'login_refused',
            'token_exchange_failed',
            'account_without_email',
            'provider_unavailable',
          ),
        },
      },
    },
    async (request, reply) => {
      if (request.validationError) throw problem('login_not_valid');
      const browserId = cookies.browserId(request);
      const { sessionId, platform, terminalSignInId } = await signIn.complete(request.query, {
        browserId,
        sessionId: cookies.sessionId(request),
        client: clientNote(request),
      });
      if (terminalSignInId !== null) {
        // The page waits for as long from now on, and would not be answered without the cookie.
        if (browserId !== null) cookies.setBrowserId(reply, browserId);
        return reply.redirect(confirmationOf(terminalSignInId));
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
 * The browser still counts this as coming from the provider, and would not send a `SameSite=Strict`
 * cookie with a redirect. A page of this site that goes on by itself begins a new, same-site request.
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
      config: { access: 'public' },
      onRequest: neverStored,
      // Whoever opens this address by hand gets a page about that, not about the rules of a query.
      attachValidation: true,
      schema: {
        tags,
        summary: 'Hands a session over to the Android application',
        querystring: mobileDoneQuery,
        response: { 200: pageAnswer('The bridge page.'), ...problemAnswers('hand_over_not_valid') },
      },
    },
    async (request, reply) => {
      if (request.validationError) throw problem('hand_over_not_valid');
      return reply
        .header('content-security-policy', MOBILE_DONE_CSP)
        .type('text/html; charset=utf-8')
        .send(mobileDonePage(request.query.sid, config.ANDROID_APP_PACKAGE));
    },
  );
}

function logoutRoute(app: Server, { cookies, signOut }: Identity): void {
  app.post(
    '/auth/logout',
    {
      config: { access: 'public' },
      onRequest: neverStored,
      schema: {
        tags,
        summary: 'Signs out; who is not signed in stays so',
        querystring: logoutQuery,
        response: {
          200: {
            description: 'It is done. A page is answered to the form of a page.',
            content: {
              'application/json': { schema: logoutAnswer },
              'text/html': { schema: Type.String() },
            },
          },
          303: redirectAnswer('To /, for the form of a page.'),
          ...problemAnswers('cross_site_request', 503),
        },
      },
    },
    async (request, reply) => {
      const sessionId = cookies.sessionId(request);
      // Where this fails the browser keeps the cookie: without it nobody could end the session.
      const logoutUrl = sessionId === null ? undefined : await signOut(sessionId);
      if (cookies.hasSession(request)) cookies.clearSession(reply);
      if (request.query.from !== 'page') {
        return { ok: true as const, ...(logoutUrl !== undefined && { logout_url: logoutUrl }) };
      }
      // A redirect would have to be among the page's own `form-action`, and may be longer than proxies take.
      return logoutUrl === undefined
        ? reply.redirect('/', 303)
        : sendHop(reply, { title: 'Signed out', text: 'You are signed out here', to: logoutUrl });
    },
  );
}

function currentUserRoute(app: Server): void {
  app.get(
    '/auth/me',
    {
      config: { access: 'signed-in' },
      onRequest: neverStored,
      schema: {
        tags,
        summary: 'The signed-in user',
        response: {
          200: currentUserSchema,
          ...problemAnswers(...guardRefusals),
        },
      },
    },
    (request) => {
      const user = signedIn(request);
      return { ...user, display_name: user.display_name ?? '' };
    },
  );
}
