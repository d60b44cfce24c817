import { html, isCrossSiteChange, renderPage, type Server } from '@oselya/kit';
import { Type } from 'typebox';
import { problem } from '../errors.ts';
import { ID_PATTERN, randomId } from './cookies.ts';
import {
  readClientInfo,
  buildPageSchema,
  buildPublicRouteOptions,
  buildRedirectSchema,
  type SignInDeps,
} from './routes.ts';
import type { TerminalRequestView } from './terminal.ts';

/** Pattern of a port from 1024 to 65535. An integer schema would also accept notations such as `0x1000`. */
const PORT_PATTERN =
  '^(102[4-9]|10[3-9][0-9]|1[1-9][0-9]{2}|[2-9][0-9]{3}|[1-5][0-9]{4}|6[0-4][0-9]{3}|65[0-4][0-9]{2}|655[0-2][0-9]|6553[0-5])$';

/** Parameters of a terminal's sign-in request. RFC 8252 §7.3, RFC 7636 §4.3. */
const terminalQuery = Type.Object({
  port: Type.String({
    pattern: PORT_PATTERN,
    description: 'The port of the terminal on 127.0.0.1: 1024 to 65535.',
  }),
  state: Type.String({
    pattern: '^[A-Za-z0-9_-]{22,128}$',
    description: 'Returned with the code.',
  }),
  code_challenge: Type.String({ pattern: '^[A-Za-z0-9_-]{43}$' }),
  code_challenge_method: Type.Literal('S256'),
});

const requestQuery = Type.Object({
  request: Type.String({ pattern: ID_PATTERN, description: 'Names the sign-in in this browser.' }),
});

const tokenBody = Type.Object(
  {
    code: Type.String({ minLength: 1, maxLength: 128 }),
    code_verifier: Type.String({ pattern: '^[A-Za-z0-9._~-]{43,128}$' }),
  },
  {
    additionalProperties: false,
    examples: [
      {
        code: 'nYk3PmG0xT5qLr8vB1cZ7dF2hJ4sW6aE9uQiOoXyKlM',
        code_verifier: 'dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk',
      },
    ],
  },
);

const tokenResponse = Type.Object(
  {
    session_id: Type.String({ description: 'The value of the cookie.' }),
    cookie_name: Type.String({ description: 'The name of the cookie.' }),
  },
  {
    description: 'The terminal is signed in.',
    examples: [
      {
        session_id: 'Zt1xW0b8cQ2mV5kR7nL4pJ9sD3fH6gA_uYeIoTqXwMs',
        cookie_name: 'svc_auth_session',
      },
    ],
  },
);

/** Registers `/auth/terminal*`: the sign-in of `oselya chat`. docs/adr/0024-sign-in-of-the-terminal.md. */
export function registerTerminalRoutes(
  app: Server,
  { config, identity, loginLimit }: SignInDeps,
): void {
  const { cookies, signIn, terminalSignIns } = identity;

  app.get(
    '/auth/terminal',
    buildPublicRouteOptions(
      ['terminal_request_not_valid', 429, 'provider_unavailable', 'sign_in_not_configured'],
      {
        summary: 'Begins the sign-in of a terminal',
        description: 'It counts as a sign-in for LOGIN_PER_MINUTE.',
        querystring: terminalQuery,
        response: { 302: buildRedirectSchema('To the identity provider.') },
      },
    ),
    async (request, reply) => {
      if (request.validationError) throw problem('terminal_request_not_valid');
      reply.headers(await loginLimit(request.ip));
      const { port, state, code_challenge } = request.query;
      const browserId = cookies.browserId(request) ?? randomId();
      const terminal = { port: Number(port), state, code_challenge };
      const url = await signIn.begin(terminal, { browserId, sessionId: null });
      cookies.setBrowserId(reply, browserId);
      return reply.redirect(`${url}#`);
    },
  );

  app.get(
    '/auth/terminal/confirm',
    buildPublicRouteOptions(['terminal_request_not_valid'], {
      summary: 'Asks whether to sign a terminal in',
      querystring: requestQuery,
      response: { 200: buildPageSchema('The account and the terminal, to be confirmed.') },
    }),
    async (request, reply) => {
      if (request.validationError) throw problem('terminal_request_not_valid');
      const id = request.query.request;
      const question = await terminalSignIns.find({ id, browserId: cookies.browserId(request) });
      // `form-action` also applies to the redirect that follows the form's submission.
      const formAction = `form-action 'self'`;
      const policy = String(reply.getHeader('content-security-policy'));
      const terminal = `http://127.0.0.1:${question.port}`;
      return (
        reply
          .header(
            'content-security-policy',
            policy.replace(formAction, `${formAction} ${terminal}`),
          )
          // Without this policy browsers send `Origin: null` with a form.
          .header('referrer-policy', 'same-origin')
          .type('text/html; charset=utf-8')
          .send(renderConfirmationPage(id, question))
      );
    },
  );

  for (const [decision, summary, description] of [
    ['confirm', 'Confirms the sign-in of a terminal', 'To the terminal, with a code for a minute.'],
    ['refuse', 'Refuses the sign-in of a terminal', 'To the terminal, with the refusal.'],
  ] as const) {
    app.post(
      `/auth/terminal/${decision}`,
      buildPublicRouteOptions(['terminal_request_not_valid', 'cross_site_request'], {
        summary,
        querystring: requestQuery,
        response: { 303: buildRedirectSchema(description) },
      }),
      async (request, reply) => {
        if (request.validationError) throw problem('terminal_request_not_valid');
        // This route uses the browser cookie, but the guard checks only requests with the auth session cookie.
        if (isCrossSiteChange(request, config.BASE_URL)) throw problem('cross_site_request');
        const confirmation = { id: request.query.request, browserId: cookies.browserId(request) };
        return reply.redirect(await terminalSignIns[decision](confirmation), 303);
      },
    );
  }

  app.post(
    '/auth/terminal/token',
    {
      ...buildPublicRouteOptions(['terminal_code_not_valid', 'cross_site_request', 429, 503], {
        summary: 'Redeems the code of a terminal for its session',
        description:
          'A code is valid for one attempt, with the right verifier or not. It counts as a sign-in for LOGIN_PER_MINUTE.',
        body: tokenBody,
        response: { 200: tokenResponse },
      }),
      attachValidation: false,
    },
    async (request, reply) => {
      reply.headers(await loginLimit(request.ip));
      const { code, code_verifier: codeVerifier } = request.body;
      const proof = { code, codeVerifier };
      const sessionId = await terminalSignIns.redeem(proof, readClientInfo(request));
      return { session_id: sessionId, cookie_name: config.SVC_AUTH_COOKIE_NAME };
    },
  );
}

/** Renders the confirmation page. It shows a code to compare, because an attacker can link to it. RFC 8252 §8.10. */
function renderConfirmationPage(id: string, { name, port, mark }: TerminalRequestView): string {
  return renderPage({
    title: 'Sign in a terminal',
    body: html`<h1>Sign in a terminal?</h1>
      <p>
        A program on this computer asks to be signed in as you. Agree only if you have just started
        <code>oselya chat</code> yourself, and it shows the same code.
      </p>
      <dl>
        <dt>Account</dt>
        <dd>${name}</dd>
        <dt>Code</dt>
        <dd><code id="mark">${mark}</code></dd>
        <dt>Listens at</dt>
        <dd>127.0.0.1:${port}, on this computer</dd>
      </dl>
      <p>It can then do everything that you can do here, until you sign it out.</p>
      <form method="post" action="/auth/terminal/confirm?request=${id}">
        <p><button id="confirm">Sign it in</button></p>
      </form>
      <form method="post" action="/auth/terminal/refuse?request=${id}">
        <p><button id="refuse">I did not start this</button></p>
      </form>`,
  });
}
