import { hash } from 'node:crypto';
import {
  html,
  isCrossSiteChange,
  isSameSecret,
  renderPage,
  type Server,
  shortenCodeChallenge,
} from '@oselya/kit';
import type { FastifyBaseLogger, FastifyRequest } from 'fastify';
import { type Kysely, sql } from 'kysely';
import { Type } from 'typebox';
import { problem } from '../errors.ts';
import type { Tables } from '../tables.ts';
import { createRandomId, ID_PATTERN } from './cookies.ts';
import { endAuthSession } from './revocation.ts';
import {
  buildPageSchema,
  buildPublicRouteOptions,
  buildRedirectSchema,
  readClientInfo,
  type SignInDeps,
} from './routes.ts';

const CODE_LIFETIME_SECONDS = 60;

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
    description: 'The state that the redirect returns with the code.',
  }),
  code_challenge: Type.String({ pattern: '^[A-Za-z0-9_-]{43}$' }),
  code_challenge_method: Type.Literal('S256'),
});

const requestQuery = Type.Object({
  request: Type.String({
    pattern: ID_PATTERN,
    description: 'The ID of the sign-in in this browser.',
  }),
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

/**
 * Registers `/auth/terminal*`: the sign-in of `oselya chat`. The user confirms it in the browser. The terminal then
 * receives a code at its port and redeems the code with its verifier. docs/adr/0024-sign-in-of-the-terminal.md.
 */
export function registerTerminalRoutes(
  app: Server,
  { config, db, identity: { cookies, signIn }, limitLogins }: SignInDeps,
): void {
  app.get(
    '/auth/terminal',
    buildPublicRouteOptions(
      ['terminal_request_not_valid', 429, 'provider_unavailable', 'sign_in_not_configured'],
      {
        summary: 'Begins a terminal sign-in',
        description: 'The request counts as a sign-in for LOGIN_PER_MINUTE.',
        querystring: terminalQuery,
        response: { 302: buildRedirectSchema('To the identity provider.') },
      },
    ),
    async (request, reply) => {
      if (request.validationError) throw problem('terminal_request_not_valid');
      reply.headers(await limitLogins(request.ip));
      const { port, state, code_challenge } = request.query;
      const browserId = cookies.browserId(request) ?? createRandomId();
      const terminal = { port: Number(port), state, code_challenge };
      const url = await signIn.begin(terminal, { browserId, sessionId: null });
      cookies.setBrowserId(reply, browserId);
      return reply.redirect(`${url}#`);
    },
  );

  /**
   * Finds a sign-in that is waiting for confirmation, or throws `terminal_request_not_valid`. Only the browser that
   * began the sign-in can confirm it.
   */
  async function findUnconfirmedSignIn(
    request: FastifyRequest<{ Querystring: { request: string } }>,
  ) {
    const terminalSignIn = request.validationError
      ? undefined
      : await db
          .selectFrom('terminal_sign_ins as t')
          .innerJoin('user_auth_sessions as s', 's.id', 't.auth_session_id')
          .innerJoin('svc_users as u', 'u.id', 's.user_id')
          .where('t.id', '=', request.query.request)
          .where('t.browser_id', '=', cookies.browserId(request))
          .where('t.code_sha256', 'is', null)
          .where('t.expires_at', '>', sql<Date>`now()`)
          .select(['t.id', 't.auth_session_id', 't.port', 't.state', 't.code_challenge'])
          .select(['u.email', 'u.display_name'])
          .executeTakeFirst();
    if (terminalSignIn === undefined) throw problem('terminal_request_not_valid');
    return terminalSignIn;
  }

  app.get(
    '/auth/terminal/confirm',
    buildPublicRouteOptions(['terminal_request_not_valid'], {
      summary: 'Asks whether to sign a terminal in',
      querystring: requestQuery,
      response: { 200: buildPageSchema('The account and the terminal, to be confirmed.') },
    }),
    async (request, reply) => {
      const terminalSignIn = await findUnconfirmedSignIn(request);
      // `form-action` also applies to the redirect that follows the form's submission, so it must allow the terminal.
      const formAction = `form-action 'self'`;
      const policy = String(reply.getHeader('content-security-policy'));
      const allowedActions = `${formAction} http://127.0.0.1:${terminalSignIn.port}`;
      return (
        reply
          .header('content-security-policy', policy.replace(formAction, allowedActions))
          // Under the default policy, older browsers send only `Origin: null` with a form, which counts as cross-site.
          .header('referrer-policy', 'same-origin')
          .type('text/html; charset=utf-8')
          .send(renderConfirmationPage(terminalSignIn))
      );
    },
  );

  for (const [decision, summary, description] of [
    ['confirm', 'Confirms a terminal sign-in', 'To the terminal, with a code for a minute.'],
    ['refuse', 'Denies a terminal sign-in', 'To the terminal, with the refusal.'],
  ] as const) {
    app.post(
      `/auth/terminal/${decision}`,
      buildPublicRouteOptions(['terminal_request_not_valid', 'cross_site_request'], {
        summary,
        querystring: requestQuery,
        response: { 303: buildRedirectSchema(description) },
      }),
      async (request, reply) => {
        // The guard checks the origin only of requests with the auth session cookie.
        if (isCrossSiteChange(request, config.BASE_URL)) throw problem('cross_site_request');
        const terminalSignIn = await findUnconfirmedSignIn(request);
        if (decision === 'refuse') {
          await endUnusedAuthSession(db, terminalSignIn.auth_session_id, 'refused', request.log);
          return reply.redirect(buildTerminalUrl(terminalSignIn, { error: 'access_denied' }), 303);
        }
        const code = createRandomId();
        await storeCode(db, terminalSignIn.id, code);
        return reply.redirect(buildTerminalUrl(terminalSignIn, { code }), 303);
      },
    );
  }

  app.post(
    '/auth/terminal/token',
    {
      ...buildPublicRouteOptions(['terminal_code_not_valid', 'cross_site_request', 429, 503], {
        summary: 'Redeems the code of a terminal for its session',
        description:
          'A code is valid for one attempt, with the right verifier or not. The attempt counts as a sign-in for LOGIN_PER_MINUTE.',
        body: tokenBody,
        response: { 200: tokenResponse },
      }),
      attachValidation: false,
    },
    async (request, reply) => {
      reply.headers(await limitLogins(request.ip));
      const { code, code_verifier: verifier } = request.body;
      // Each attempt uses up the code, so a verifier can be guessed only once.
      const redeemedSignIn = await db
        .deleteFrom('terminal_sign_ins')
        .where('code_sha256', '=', computeSha256(code))
        .where('expires_at', '>', sql<Date>`now()`)
        .returning(['auth_session_id as id', 'code_challenge'])
        .executeTakeFirst();
      if (redeemedSignIn === undefined) throw problem('terminal_code_not_valid');
      const { id, code_challenge } = redeemedSignIn;
      if (!isSameSecret(computeSha256(verifier), code_challenge)) {
        await endUnusedAuthSession(db, id, 'wrong_verifier', request.log);
        throw problem('terminal_code_not_valid');
      }
      await db
        .updateTable('user_auth_sessions')
        .set(readClientInfo(request))
        .where('id', '=', id)
        .execute();
      return { session_id: id, cookie_name: config.SVC_AUTH_COOKIE_NAME };
    },
  );
}

/** Stores the digest of the code of a confirmed sign-in. Only one of several confirmations succeeds. */
async function storeCode(db: Kysely<Tables>, id: string, code: string): Promise<void> {
  const { numUpdatedRows } = await db
    .updateTable('terminal_sign_ins')
    .set({
      code_sha256: computeSha256(code),
      expires_at: sql<Date>`now() + make_interval(secs => ${CODE_LIFETIME_SECONDS})`,
    })
    .where('id', '=', id)
    .where('code_sha256', 'is', null)
    .executeTakeFirst();
  if (numUpdatedRows === 0n) throw problem('terminal_request_not_valid');
}

/** Ends an unused auth session. Does not revoke its tokens, because many providers keep one grant for each browser. */
async function endUnusedAuthSession(
  db: Kysely<Tables>,
  id: string,
  reason: 'refused' | 'wrong_verifier',
  log: FastifyBaseLogger,
): Promise<void> {
  const details = { platform: 'terminal', reason };
  const endedSession = await db
    .transaction()
    .execute((trx) => endAuthSession(trx, { id }, { action: 'signed_out', details }));
  if (endedSession)
    log.info({ user_id: endedSession.user_id, reason }, 'a terminal was not signed in');
}

const computeSha256 = (text: string) => hash('sha256', text, 'base64url');

/** Builds the terminal's URL with the loopback IP, because `localhost` may be a different host. RFC 8252 §8.3. */
function buildTerminalUrl(
  { port, state }: { port: number; state: string },
  parameters: Record<string, string>,
): string {
  return `http://127.0.0.1:${port}/?${new URLSearchParams({ ...parameters, state }).toString()}`;
}

/** Renders the confirmation page, with a code to compare because attackers can link to the page. RFC 8252 §8.6. */
function renderConfirmationPage(terminalSignIn: {
  id: string;
  port: number;
  code_challenge: string;
  email: string;
  display_name: string | null;
}): string {
  const { id, port, email, display_name: name } = terminalSignIn;
  return renderPage({
    title: 'Sign in a terminal',
    body: html`<h1>Sign in a terminal?</h1>
      <p>
        A program on this computer asks to be signed in as you. Agree only if you have just started
        <code>oselya chat</code> yourself, and it shows the same code.
      </p>
      <dl>
        <dt>Account</dt>
        <dd>${name === null ? email : `${name}, ${email}`}</dd>
        <dt>Code</dt>
        <dd><code id="mark">${shortenCodeChallenge(terminalSignIn.code_challenge)}</code></dd>
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
