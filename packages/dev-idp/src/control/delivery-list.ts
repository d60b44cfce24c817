import { html, type Html } from '@oselya/kit';
import type { DevAccount } from '../accounts.ts';
import type { WebhookDelivery, Webhooks } from '../webhooks/webhooks.ts';

const outcomes = {
  waiting: { label: 'being delivered', look: 'wait' },
  delivered: { label: 'delivered', look: 'good' },
  failed: { label: 'not delivered', look: 'bad' },
} as const;

// The page is read on the machine that makes it, so the server's time zone is the reader's.
const timeFormat = new Intl.DateTimeFormat('en-GB', { dateStyle: 'medium', timeStyle: 'long' });

/** The latest webhooks and how they fared. */
export function deliveryList(
  { url, recent }: Pick<Webhooks, 'url' | 'recent'>,
  accounts: readonly DevAccount[],
): Html {
  const names = new Map(accounts.map(({ sub, display_name }) => [sub, display_name]));
  const deliveries = recent();
  return html`<section aria-labelledby="webhooks">
    <h2 id="webhooks">Webhooks</h2>
    <p>${target(url)}</p>
    ${deliveries.some(({ state }) => state === 'waiting') ? lookAgain : null}
    <ul class="deliveries">
      ${deliveries.map((delivery) => row(delivery, names))}
    </ul>
    ${deliveries.length === 0 ? html`<p>Nothing has happened yet.</p>` : null}
  </section>`;
}

const lookAgain = html`<p>
  <a href="/">Look again</a> to see what has become of those that wait.
</p>`;

function target(url: string | undefined): Html {
  if (url === undefined) return html`No webhook is set up: nobody is told of changes.`;
  return html`Changes are told to <code>${url}</code>. The latest stands first.`;
}

function row(delivery: WebhookDelivery, names: ReadonlyMap<string, string>): Html {
  const { event, user_id, occurred_at } = delivery;
  const whom = user_id === undefined ? 'everybody' : (names.get(user_id) ?? user_id);
  const when = timeFormat.format(new Date(occurred_at));
  return html`<li>
    <span><code>${event}</code> <span class="about">${whom}</span></span>
    <time datetime="${occurred_at}">${when}</time>
    ${outcome(delivery)}
  </li>`;
}

/** How a delivery stands, in a few words. */
export function outcome({ state, attempts, detail }: WebhookDelivery): Html {
  const { label, look } = outcomes[state];
  const tries = attempts > 1 ? ` at attempt ${attempts}` : '';
  return html`<span class="outcome ${look}">${label}: ${detail}${tries}</span>`;
}
