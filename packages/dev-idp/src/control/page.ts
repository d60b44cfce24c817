import { html, type Html } from '@oselya/kit';
import type { DevAccount } from '../accounts.ts';
import { goToApplication, type Page, page } from '../pages/layout.ts';
import type { Webhooks } from '../webhooks/webhooks.ts';
import { accountCard } from './account-card.ts';
import { deliveryList, outcome } from './delivery-list.ts';
import type { Notice } from './notices.ts';

const title = 'Development identity provider';

/** The whole front page, with what was done last if that was just now. */
export function controlPage(shown: {
  accounts: readonly DevAccount[];
  webhooks: Pick<Webhooks, 'url' | 'recent'>;
  redirectUris: readonly string[];
  notice: Notice | undefined;
}): Page {
  const { accounts, webhooks, redirectUris, notice } = shown;
  const body = html`
    <h1>${title}</h1>
    <p>
      Sample accounts without passwords, on this machine alone. What you change here holds at once,
      and the application is told by a signed webhook.
    </p>
    ${goToApplication(redirectUris)} ${notice === undefined ? null : noticeBox(notice)}
    ${accounts.map((account, index) => accountCard(account, `account-${index + 1}`))}
    <section aria-labelledby="everybody">
      <h2 id="everybody">Everybody</h2>
      <p>Ends every sign-in of every account. Nobody is blocked: all can sign in again.</p>
      <form method="post" action="/control/log-out-everybody">
        <button class="grave">Log everybody out</button>
      </form>
    </section>
    ${deliveryList(webhooks, accounts)}
    <p><a href="/.well-known/openid-configuration">OpenID configuration</a></p>
  `;
  return page(title, body, redirectUris, 'control');
}

// It takes the focus, so that a screen reader begins with what was done.
function noticeBox({ message, deliveries }: Notice): Html {
  return html`<div class="notice" role="status" tabindex="-1" autofocus>
    <p><strong>${message}</strong></p>
    ${deliveries.map(
      (delivery) => html`<p><code>${delivery.event}</code> ${outcome(delivery)}</p>`,
    )}
  </div>`;
}

/** Says why a form of the control page was not acted upon. */
export function refusedPage(reason: string, redirectUris: readonly string[]): Page {
  const body = html`
    <h1>Nothing was changed</h1>
    <p>${reason}</p>
    <p><a href="/">Back to the accounts</a></p>
  `;
  return page('Nothing was changed', body, redirectUris);
}
