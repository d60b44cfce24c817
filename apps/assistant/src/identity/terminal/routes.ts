import { isCrossSiteChange, type RateLimit, type Server } from '@oselya/kit';
import type { Config } from '../../config.ts';
import { problem, problemAnswers } from '../../errors.ts';
import { clientNote, neverStored } from '../http.ts';
import type { Identity } from '../identity.ts';
import { randomId } from '../ids.ts';
import { pageAnswer, redirectAnswer } from '../schemas.ts';
import { confirmationPage } from './page.ts';
import { requestQuery, terminalQuery, tokenAnswer, tokenBody } from './schemas.ts';
import type { TerminalSignIns } from './sign-ins.ts';

/** Where a browser is asked whether a terminal may be signed in. */
export const confirmationOf = (id: string) => `/auth/terminal/confirm?request=${id}`;

const common = {
  config: { access: 'public' },
  exposeHeadRoute: false,
  onRequest: neverStored,
} as const;
const tags = ['sign-in'];

type Deps = { config: Config; identity: Identity; loginLimit: RateLimit };

/** `/auth/terminal*`: the sign-in of `oselya chat`. docs/adr/0024-sign-in-of-the-terminal.md. */
export function terminalRoutes(app: Server, deps: Deps): void {
  beginRoute(app, deps);
  questionRoute(app, deps.identity);
  answerRoutes(app, deps);
  tokenRoute(app, deps);
}

function beginRoute(app: Server, { identity: { cookies, signIn }, loginLimit }: Deps): void {
  app.get(
    '/auth/terminal',
    {
      ...common,
      // Whoever opens this address by hand gets a page about that, not about the rules of a query.
      attachValidation: true,
      schema: {
        tags,
        summary: 'Begins the sign-in of a terminal',
        description: 'It counts as a sign-in for LOGIN_PER_MINUTE.',
        querystring: terminalQuery,
        response: {
          302: redirectAnswer('To the identity provider.'),
          ...problemAnswers(
            'terminal_request_not_valid',
            429,
            'provider_unavailable',
            'sign_in_not_configured',
          ),
        },
      },
    },
    async (request, reply) => {
      if (request.validationError) throw problem('terminal_request_not_valid');
      reply.headers(await loginLimit(request.ip));
      const { port, state, code_challenge } = request.query;
      const browserId = cookies.browserId(request) ?? randomId();
      const asker = { port: Number(port), state, code_challenge };
      const url = await signIn.begin(asker, { browserId, sessionId: null });
      cookies.setBrowserId(reply, browserId);
      return reply.redirect(`${url}#`);
    },
  );
}

function questionRoute(app: Server, { cookies, terminalSignIns }: Identity): void {
  app.get(
    '/auth/terminal/confirm',
    {
      ...common,
      attachValidation: true,
      schema: {
        tags,
        summary: 'Asks whether a terminal may be signed in',
        querystring: requestQuery,
        response: {
          200: pageAnswer('What is to be signed in, and where.'),
          ...problemAnswers('terminal_request_not_valid'),
        },
      },
    },
    async (request, reply) => {
      if (request.validationError) throw problem('terminal_request_not_valid');
      const id = request.query.request;
      const question = await terminalSignIns.find({ id, browserId: cookies.browserId(request) });
      // Browsers hold the redirect that answers a form against the policy of the form's page.
      const policy = String(reply.getHeader('content-security-policy'));
      const own = `form-action 'self'`;
      return (
        reply
          .header(
            'content-security-policy',
            policy.replace(own, `${own} http://127.0.0.1:${question.port}`),
          )
          // Without a referrer browsers send `Origin: null` with a form, which is no origin of ours.
          .header('referrer-policy', 'same-origin')
          .type('text/html; charset=utf-8')
          .send(confirmationPage(id, question))
      );
    },
  );
}

function answerRoutes(app: Server, { config, identity }: Deps): void {
  const { cookies, terminalSignIns } = identity;
  for (const [answer, summary, description] of [
    ['confirm', 'Agrees to sign a terminal in', 'To the terminal, with a code for one minute.'],
    ['refuse', 'Refuses to sign a terminal in', 'To the terminal, which is told so.'],
  ] as const) {
    app.post(
      `/auth/terminal/${answer}`,
      {
        ...common,
        attachValidation: true,
        schema: {
          tags,
          summary,
          querystring: requestQuery,
          response: {
            303: redirectAnswer(description),
            ...problemAnswers('terminal_request_not_valid', 'cross_site_request'),
          },
        },
      },
      async (request, reply) => {
        if (request.validationError) throw problem('terminal_request_not_valid');
        // The browser's cookie decides here, not the session's, which is what the server looks at by itself.
        if (isCrossSiteChange(request, config.BASE_URL)) throw problem('cross_site_request');
        const give: TerminalSignIns['confirm'] = terminalSignIns[answer];
        const asked = { id: request.query.request, browserId: cookies.browserId(request) };
        return reply.redirect(await give(asked), 303);
      },
    );
  }
}

function tokenRoute(app: Server, { config, identity, loginLimit }: Deps): void {
  app.post(
    '/auth/terminal/token',
    {
      ...common,
      schema: {
        tags,
        summary: 'Redeems the code of a terminal for its session',
        description:
          'A code can be tried once, with whatever verifier. It counts as a sign-in for LOGIN_PER_MINUTE.',
        body: tokenBody,
        response: {
          200: tokenAnswer,
          ...problemAnswers(
            'terminal_code_not_valid',
            'cross_site_request',
            413,
            415,
            422,
            429,
            503,
          ),
        },
      },
    },
    async (request, reply) => {
      reply.headers(await loginLimit(request.ip));
      const { code, code_verifier: codeVerifier } = request.body;
      const proof = { code, codeVerifier };
      const sessionId = await identity.terminalSignIns.redeem(proof, clientNote(request));
      return { session_id: sessionId, cookie_name: config.SVC_AUTH_COOKIE_NAME };
    },
  );
}
