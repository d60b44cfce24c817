import { html, type Html } from '@oselya/kit';
import type { DevAccount } from '../accounts.ts';
import { type Choice, offeredPermissions, offeredRoles } from './offered.ts';

/**
 * An account as it is now, and the forms that change it.
 *
 * @param id unique on the page
 */
export function accountCard(account: DevAccount, id: string): Html {
  const { sub, display_name, email, role_ids, permission_ids, blocked } = account;
  return html`<section aria-labelledby="${id}">
    <div class="title">
      <h2 id="${id}">${display_name}</h2>
      <span class="badge ${blocked ? 'bad' : 'good'}">${blocked ? 'blocked' : 'active'}</span>
    </div>
    <p>${email} · <code>${sub}</code></p>
    <dl>
      <dt>Roles</dt>
      <dd class="slugs">${slugs(role_ids)}</dd>
      <dt>Permissions</dt>
      <dd class="slugs">${slugs(permission_ids)}</dd>
    </dl>
    <div class="actions">
      ${blocked ? act('unblock', 'Unblock', account) : act('block', 'Block', account, 'grave')}
      ${act('revoke-sessions', 'Revoke sessions', account)}
    </div>
    <details>
      <summary>Change roles and permissions${unseen(` of ${display_name}`)}</summary>
      ${accessForm(account)}
    </details>
  </section>`;
}

function slugs(present: readonly string[]): Html {
  if (present.length === 0) return html`none`;
  return html`${present.map((slug) => html`<code>${slug}</code> `)}`;
}

// The label alone would not say to a screen reader whom the button is about.
function act(path: string, label: string, account: DevAccount, look = ''): Html {
  return html`<form method="post" action="/control/${path}">
    <button name="account" value="${account.sub}" class="${look}">
      ${label}${unseen(` ${account.display_name}`)}
    </button>
  </form>`;
}

function accessForm(account: DevAccount): Html {
  return html`<form method="post" action="/control/access">
    <input type="hidden" name="account" value="${account.sub}" />
    ${choices('Roles', 'role', offeredRoles(account))}
    ${choices('Permissions', 'permission', offeredPermissions(account))}
    <button class="main">Save${unseen(` roles and permissions of ${account.display_name}`)}</button>
  </form>`;
}

function choices(legend: string, name: string, offered: readonly Choice[]): Html {
  return html`<fieldset>
    <legend>${legend}</legend>
    <div class="choices">${offered.map((choice) => checkBox(name, choice))}</div>
  </fieldset>`;
}

function checkBox(name: string, { slug, meaning, chosen }: Choice): Html {
  const checked = chosen ? html`checked` : null;
  return html`<label>
    <input type="checkbox" name="${name}" value="${slug}" ${checked} />
    <span><code>${slug}</code> ${meaning === '' ? null : html`<small>${meaning}</small>`}</span>
  </label>`;
}

function unseen(text: string): Html {
  return html`<span class="unseen">${text}</span>`;
}
