import { setTimeout as sleep } from 'node:timers/promises';
import formBody from '@fastify/formbody';
import { html, type Html, isCrossSiteChange } from '@oselya/kit';
import type { FastifyError, FastifyInstance, FastifyReply } from 'fastify';
import { type Accounts, type DevAccess, type DevAccount, PERMISSIONS, ROLES } from './accounts.ts';
import { createApplicationLink, createMessagePage, createPage, sendPage } from './pages.ts';
import type { Artifacts } from './store.ts';
import type { WebhookDelivery, Webhooks } from './webhooks.ts';

/** Webhooks enqueued for a change; empty if nothing changed. */
type SentWebhooks = readonly Readonly<WebhookDelivery>[];

export type AccountService = ReturnType<typeof createAccountService>;

/**
 * Creates the functions that change accounts and send events. A change is stored before its event is sent, so receivers
 * can already query the new state.
 */
export function createAccountService(accounts: Accounts, artifacts: Artifacts, webhooks: Webhooks) {
  return {
    /** Blocks an account and ends its sessions, or unblocks it. */
    setBlocked(sub: string, blocked: boolean): SentWebhooks {
      const previousAccount = accounts.find(sub);
      accounts.change(sub, { blocked });
      if (blocked) artifacts.revokeAccount(sub);
      if (previousAccount?.blocked === blocked) return [];
      return [webhooks.send(blocked ? 'user.blocked' : 'user.unblocked', sub)];
    },
    setAccess(sub: string, access: DevAccess): SentWebhooks {
      const previousAccount = accounts.find(sub);
      accounts.change(sub, access);
      const events = [
        ['role_ids', 'client.roles_changed'],
        ['permission_ids', 'client.permissions_changed'],
      ] as const;
      return events
        .filter(([field]) => haveDifferentItems(previousAccount?.[field], access[field]))
        .map(([, event]) => webhooks.send(event, sub));
    },
    revokeSessions(sub: string): SentWebhooks {
      artifacts.revokeAccount(sub);
      return [webhooks.send('session.revoked', sub)];
    },
    signOutAllUsers(): SentWebhooks {
      artifacts.revokeAllAccounts();
      return [webhooks.send('auth.global_logout')];
    },
  };
}

function haveDifferentItems(
  oldItems: readonly string[] = [],
  newItems: readonly string[],
): boolean {
  return new Set(oldItems).symmetricDifference(new Set(newItems)).size > 0;
}

const createFormError = (statusCode: number, message: string) =>
  Object.assign(new Error(message), { statusCode });

type ControlOptions = {
  accounts: Accounts;
  accountService: AccountService;
  webhooks: Webhooks;
  redirectUris: readonly string[];
};

/** Outcome of the last submitted form. The page shows it once. */
type Notice = { message: string; deliveries: SentWebhooks };

type AccountForm = { account: string };
type AccessForm = AccountForm & { role: string[]; permission: string[] };

const subSchema = { type: 'string' } as const;
const accountFormSchema = {
  type: 'object',
  required: ['account'],
  properties: { account: subSchema },
} as const;
const createSlugsSchema = (options: readonly { slug: string }[]) =>
  ({ type: 'array', items: { enum: options.map(({ slug }) => slug) }, default: [] }) as const;
const accessFormSchema = {
  ...accountFormSchema,
  properties: {
    account: subSchema,
    role: createSlugsSchema(ROLES),
    permission: createSlugsSchema(PERMISSIONS),
  },
};
const MAX_BODY_BYTES = 16_384;

/** Time to wait for deliveries before the redirect, so that the page can show their outcome. */
const OUTCOME_WAIT_MS = 1000;

/**
 * Registers the control page and its forms. Each form redirects to the page, which shows the change and its
 * webhooks.
 */
export async function registerControlRoutes(
  app: FastifyInstance,
  options: ControlOptions,
): Promise<void> {
  const { accounts, accountService, webhooks, redirectUris } = options;
  let notice: Notice | undefined;
  await app.register(formBody, { bodyLimit: MAX_BODY_BYTES });

  app.addHook('onRequest', (request, _reply, done) => {
    if (!isCrossSiteChange(request)) return done();
    done(
      createFormError(
        403,
        'The form comes from a page at a different address. Use the page of the provider.',
      ),
    );
  });
  app.setErrorHandler<FastifyError>((error, _request, reply) => {
    const status = error.statusCode ?? 500;
    if (status >= 500) throw error;
    const text = html`${error.message} <a href="/">Back to the accounts</a>`;
    return sendPage(reply, status, createMessagePage('Nothing was changed', text, redirectUris));
  });

  app.get('/', (_request, reply) => {
    const shownNotice = notice;
    notice = undefined;
    return sendPage(reply, 200, createControlPage(options, shownNotice));
  });

  const addAccountForm = (path: string, change: (account: DevAccount) => [string, SentWebhooks]) =>
    app.post<{ Body: AccountForm }>(
      `/control/${path}`,
      { schema: { body: accountFormSchema } },
      ({ body }, reply) => showOutcome(reply, ...change(findAccount(body.account))),
    );
  addAccountForm('block', ({ sub, display_name: name }) => {
    const events = accountService.setBlocked(sub, true);
    const outcome = 'is blocked, and all sign-ins of the account have ended';
    return [`${name} ${events.length === 0 ? 'was blocked already' : outcome}.`, events];
  });
  addAccountForm('unblock', ({ sub, display_name: name }) => {
    const events = accountService.setBlocked(sub, false);
    return [`${name} ${events.length === 0 ? 'was not blocked' : 'can sign in again'}.`, events];
  });
  addAccountForm('revoke-sessions', ({ sub, display_name: name }) => [
    `All sign-ins of ${name} have ended.`,
    accountService.revokeSessions(sub),
  ]);
  app.post<{ Body: AccessForm }>(
    '/control/access',
    { schema: { body: accessFormSchema } },
    ({ body }, reply) => {
      const { sub, display_name: name } = findAccount(body.account);
      const events = accountService.setAccess(sub, {
        role_ids: body.role,
        permission_ids: body.permission,
      });
      const state = events.length === 0 ? 'unchanged' : 'saved';
      return showOutcome(reply, `Roles and permissions of ${name} are ${state}.`, events);
    },
  );
  app.post('/control/log-out-everybody', (_request, reply) =>
    showOutcome(reply, 'Everybody is logged out.', accountService.signOutAllUsers()),
  );

  function findAccount(sub: string): DevAccount {
    const account = accounts.find(sub);
    if (!account) throw createFormError(404, `The provider has no account “${sub}”.`);
    return account;
  }

  async function showOutcome(reply: FastifyReply, message: string, deliveries: SentWebhooks) {
    await Promise.race([
      webhooks.waitUntilSettled(),
      sleep(OUTCOME_WAIT_MS, undefined, { ref: false }),
    ]);
    notice = { message, deliveries };
    return reply.redirect('/', 303);
  }
}

function createControlPage({ accounts, webhooks, redirectUris }: ControlOptions, notice?: Notice) {
  const accountList = accounts.list();
  // Focus the notice, so that screen readers start with it.
  const noticeBox =
    notice &&
    html`<div class="notice" role="status" tabindex="-1" autofocus>
      <p><strong>${notice.message}</strong></p>
      ${notice.deliveries.map((delivery) => html`<p><code>${delivery.event}</code> ${formatOutcome(delivery)}</p>`)}
    </div>`;
  const body = html`
    <p>
      Sample accounts without passwords, on this machine alone. Changes hold immediately, and the
      application gets a signed webhook for each.
    </p>
    ${createApplicationLink(redirectUris)} ${noticeBox ?? null}
    ${accountList.map((account, index) => formatAccount(account, `account-${index + 1}`))}
    <section aria-labelledby="everybody">
      <h2 id="everybody">Everybody</h2>
      <p>Ends every sign-in of every account. Nobody is blocked: all can sign in again.</p>
      <form method="post" action="/control/log-out-everybody">
        <button class="bad">Log everybody out</button>
      </form>
    </section>
    ${formatDeliveries(webhooks, accountList)}
    <p><a href="/.well-known/openid-configuration">OpenID configuration</a></p>
  `;
  return createPage('Development identity provider', body, redirectUris);
}

/** Formats text for screen readers only. */
const formatHidden = (text: string) => html`<span class="unseen">${text}</span>`;

function formatSlugs(slugs: readonly string[]): Html {
  return slugs.length === 0
    ? html`none`
    : html`${slugs.map((slug) => html`<code>${slug}</code> `)}`;
}

function formatAccount(account: DevAccount, id: string): Html {
  const { sub, display_name: name, email, role_ids, permission_ids, blocked } = account;
  const formatButton = (path: string, label: string, className = '') =>
    html`<form method="post" action="/control/${path}">
      <button name="account" value="${sub}" class="${className}">
        ${label}${formatHidden(` ${name}`)}
      </button>
    </form>`;
  return html`<section aria-labelledby="${id}">
    <h2 id="${id}">${name}</h2>
    <span class="${blocked ? 'bad' : 'good'}">${blocked ? 'blocked' : 'active'}</span>
    <p>${email} · <code>${sub}</code></p>
    <dl>
      <dt>Roles</dt>
      <dd>${formatSlugs(role_ids)}</dd>
      <dt>Permissions</dt>
      <dd>${formatSlugs(permission_ids)}</dd>
    </dl>
    <div class="actions">
      ${blocked ? formatButton('unblock', 'Unblock') : formatButton('block', 'Block', 'bad')}
      ${formatButton('revoke-sessions', 'Revoke sessions')}
    </div>
    <details>
      <summary>Change roles and permissions${formatHidden(` of ${name}`)}</summary>
      <form method="post" action="/control/access">
        <input type="hidden" name="account" value="${sub}" />
        ${formatCheckboxes('Roles', 'role', ROLES, role_ids)}
        ${formatCheckboxes('Permissions', 'permission', PERMISSIONS, permission_ids)}
        <button>Save${formatHidden(` roles and permissions of ${name}`)}</button>
      </form>
    </details>
  </section>`;
}

function formatCheckboxes(
  legend: string,
  name: string,
  options: readonly { slug: string; meaning: string }[],
  selectedSlugs: readonly string[],
): Html {
  const boxes = options.map(({ slug, meaning }) => {
    const checked = selectedSlugs.includes(slug) ? html`checked` : null;
    return html`<label>
      <input type="checkbox" name="${name}" value="${slug}" ${checked} />
      <span><code>${slug}</code> <small>${meaning}</small></span>
    </label>`;
  });
  return html`<fieldset>
    <legend>${legend}</legend>
    <div class="choices">${boxes}</div>
  </fieldset>`;
}

// The browser runs on this machine, in the same time zone.
const timeFormat = new Intl.DateTimeFormat('en-GB', { dateStyle: 'medium', timeStyle: 'long' });

function formatDeliveries({ url, listRecent }: Webhooks, accounts: readonly DevAccount[]): Html {
  const names = new Map(accounts.map(({ sub, display_name }) => [sub, display_name]));
  const deliveries = listRecent();
  const rows = deliveries.map((delivery) => {
    const { event, user_id, occurred_at } = delivery;
    const subject = user_id === undefined ? 'everybody' : (names.get(user_id) ?? user_id);
    return html`<li>
      <span><code>${event}</code> <span class="about">${subject}</span></span>
      <time datetime="${occurred_at}">${timeFormat.format(new Date(occurred_at))}</time>
      ${formatOutcome(delivery)}
    </li>`;
  });
  const isWaiting = deliveries.some(({ state }) => state === 'waiting');
  return html`<section aria-labelledby="webhooks">
    <h2 id="webhooks">Webhooks</h2>
    <p>
      ${url === undefined ? 'No webhook is set up.' : html`Changes are sent to <code>${url}</code>.`}
    </p>
    ${isWaiting ? html`<p><a href="/">Reload</a> to see the outcome of the waiting changes.</p>` : null}
    <ul>
      ${rows}
    </ul>
    ${deliveries.length === 0 ? html`<p>There are no changes yet.</p>` : null}
  </section>`;
}

const OUTCOME_LABELS = {
  waiting: ['being delivered', 'wait'],
  delivered: ['delivered', 'good'],
  failed: ['not delivered', 'bad'],
} as const;

function formatOutcome({ state, attempts, detail }: WebhookDelivery): Html {
  const [label, className] = OUTCOME_LABELS[state];
  const attemptNote = attempts > 1 ? ` at attempt ${attempts}` : '';
  return html`<span class="outcome ${className}">${label}: ${detail}${attemptNote}</span>`;
}
