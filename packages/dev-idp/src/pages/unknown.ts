import { html } from '@oselya/kit';
import { goToApplication, type Page, page } from './layout.ts';

/** Says that an address leads to nothing here. */
export function unknownPage(redirectUris: readonly string[]): Page {
  const body = html`
    <h1>There is no such page</h1>
    <p>The development identity provider has <a href="/">one page of its own</a>.</p>
    ${goToApplication(redirectUris)}
  `;
  return page('There is no such page', body, redirectUris);
}
