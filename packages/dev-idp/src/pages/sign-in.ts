import { html, type Html } from '@oselya/kit';
import type { ErrorOut } from 'oidc-provider';
import type { DevAccount } from '../accounts.ts';
import { goToApplication, type Page, page } from './layout.ts';

/** The choice of an account; each button posts its `sub` back to the page's own address. */
export function pickerPage(accounts: readonly DevAccount[], redirectUris: readonly string[]): Page {
  const body = html`
    <h1>Choose an account</h1>
    <p>This is the development identity provider: sample accounts, no passwords.</p>
    <form method="post" class="picker">
      ${accounts.map(accountButton)}
      <button class="cancel" name="action" value="cancel">Cancel</button>
    </form>
  `;
  return page('Choose an account', body, redirectUris);
}

function accountButton(account: DevAccount): Html {
  const { sub, display_name, email, role_ids, blocked } = account;
  const details = [email, ...role_ids, ...(blocked ? ['blocked'] : [])].join(' · ');
  const label = html`${display_name} <span>${details}</span>`;
  return blocked
    ? html`<button name="account" value="${sub}" disabled>${label}</button>`
    : html`<button name="account" value="${sub}">${label}</button>`;
}

/** Says that an interaction is over or belongs to another browser, and how to begin again. */
export function lostInteractionPage(redirectUris: readonly string[]): Page {
  const body = html`
    <h1>This sign-in is no longer open</h1>
    <p>
      It was finished, took longer than ten minutes, or was begun in another browser or with cookies
      turned off.
    </p>
    ${goToApplication(redirectUris)}
  `;
  return page('This sign-in is no longer open', body, redirectUris);
}

/** Says that the posted choice cannot sign in. */
export function unavailableAccountPage(redirectUris: readonly string[]): Page {
  const body = html`
    <h1>This account cannot sign in</h1>
    <p>It is blocked, or the provider no longer has it. <a href="">Choose another account</a>.</p>
  `;
  return page('This account cannot sign in', body, redirectUris);
}

/** Shows an authorization request's error that must not be sent back to the application. */
export function refusalPage(out: ErrorOut, redirectUris: readonly string[]): Page {
  const body = html`
    <h1>The sign-in request was refused</h1>
    <p>${out.error}: ${out.error_description ?? 'no further details'}</p>
    <p>
      If you run the application, compare its client id and redirect address with the ones the
      provider was started with.
    </p>
    ${goToApplication(redirectUris)}
  `;
  return page('The sign-in request was refused', body, redirectUris);
}
