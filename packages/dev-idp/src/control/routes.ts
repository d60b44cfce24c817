import { setTimeout as sleep } from 'node:timers/promises';
import formBody from '@fastify/formbody';
import { isCrossSiteChange } from '@oselya/kit';
import type { FastifyError, FastifyInstance, FastifyReply } from 'fastify';
import type { Accounts, DevAccount } from '../accounts.ts';
import { sendToFastify } from '../pages/layout.ts';
import type { Webhooks } from '../webhooks/webhooks.ts';
import type { Acts, Caused } from './acts.ts';
import { createNotices } from './notices.ts';
import { assertOffered } from './offered.ts';
import { controlPage, refusedPage } from './page.ts';
import { Refusal } from './refusal.ts';

/** What the control page shows and acts upon. */
export type ControlOptions = {
  accounts: Accounts;
  acts: Acts;
  webhooks: Webhooks;
  redirectUris: readonly string[];
};

type AccountForm = { account: string };
type AccessForm = AccountForm & { role: string[]; permission: string[] };

const account = { type: 'string' } as const;
const slugs = { type: 'array', items: { type: 'string' }, default: [] } as const;
const accountForm = { type: 'object', required: ['account'], properties: { account } } as const;
const accessForm = {
  type: 'object',
  required: ['account'],
  properties: { account, role: slugs, permission: slugs },
} as const;
const bodyLimitBytes = 16_384;

/** A receiver at work answers within this time, and the page can then say that it did. */
const outcomeWaitMs = 1000;

/**
 * The front page, on which a developer does what the owner of an identity provider does: blocks
 * accounts, changes what they may do, ends sign-ins. Each form posts, and is answered by a redirect to
 * the page, which says what was done and how the webhook fared.
 */
export async function controlRoutes(app: FastifyInstance, options: ControlOptions): Promise<void> {
  const { accounts, acts, webhooks, redirectUris } = options;
  const notices = createNotices();
  await app.register(formBody, { bodyLimit: bodyLimitBytes });

  app.addHook('onRequest', (request, _reply, done) => {
    if (!isCrossSiteChange(request)) return done();
    done(new Refusal(403, 'The form was sent by a page of another address.'));
  });
  app.setErrorHandler<FastifyError>((error, _request, reply) => {
    const status = error.statusCode ?? 500;
    if (status >= 500) throw error;
    return sendToFastify(reply, status, refusedPage(error.message, redirectUris));
  });

  app.get<{ Querystring: { notice?: string } }>(
    '/',
    { schema: { querystring: { type: 'object', properties: { notice: { type: 'string' } } } } },
    ({ query }, reply) => {
      const notice = query.notice === undefined ? undefined : notices.take(query.notice);
      const page = controlPage({ accounts: accounts.list(), webhooks, redirectUris, notice });
      return sendToFastify(reply, 200, page);
    },
  );

  const onAccount = (path: string, act: (found: DevAccount) => [message: string, Caused]) =>
    app.post<{ Body: AccountForm }>(path, { schema: { body: accountForm } }, ({ body }, reply) =>
      answer(reply, ...act(known(body.account))),
    );
  onAccount('/control/block', ({ sub, display_name }) => {
    const caused = acts.setBlocked(sub, true);
    if (caused.length === 0) return [`${display_name} was blocked already.`, caused];
    return [`${display_name} is blocked, and all sign-ins of the account are over.`, caused];
  });
  onAccount('/control/unblock', ({ sub, display_name }) => {
    const caused = acts.setBlocked(sub, false);
    if (caused.length === 0) return [`${display_name} was not blocked.`, caused];
    return [`${display_name} can sign in again.`, caused];
  });
  onAccount('/control/revoke-sessions', ({ sub, display_name }) => [
    `All sign-ins of ${display_name} are over.`,
    acts.revokeSessions(sub),
  ]);

  app.post<{ Body: AccessForm }>(
    '/control/access',
    { schema: { body: accessForm } },
    ({ body }, reply) => {
      const found = known(body.account);
      const access = { role_ids: body.role, permission_ids: body.permission };
      assertOffered(found, access);
      const caused = acts.setAccess(found.sub, access);
      const changed = caused.length === 0 ? 'unchanged' : 'saved';
      return answer(
        reply,
        `Roles and permissions of ${found.display_name} are ${changed}.`,
        caused,
      );
    },
  );
  app.post('/control/log-out-everybody', (_request, reply) =>
    answer(reply, 'Everybody is logged out.', acts.logOutEverybody()),
  );

  function known(sub: string): DevAccount {
    const found = accounts.find(sub);
    if (!found) throw new Refusal(404, `The provider has no account “${sub}”.`);
    return found;
  }

  async function answer(reply: FastifyReply, message: string, deliveries: Caused) {
    await Promise.race([webhooks.settled(), sleep(outcomeWaitMs, undefined, { ref: false })]);
    return reply.redirect(`/?notice=${notices.keep({ message, deliveries })}`, 303);
  }
}
