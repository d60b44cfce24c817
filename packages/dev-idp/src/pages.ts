import { hash } from 'node:crypto';
import { html, type Html, rawHtml } from '@oselya/kit';
import type { FastifyReply } from 'fastify';
import type { DevAccount } from './accounts.ts';

type Page = { html: string; headers: Record<string, string> };

export const FAVICON = `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 32 32">
  <rect width="32" height="32" rx="7" fill="#1f5fbf"/>
  <g fill="none" stroke="#fff" stroke-width="3" stroke-linecap="round" stroke-linejoin="round">
    <circle cx="11.5" cy="20.5" r="4.5"/><path d="M15 17l8-8m-3 3 3 3"/></g></svg>`;

const LOGO = rawHtml(FAVICON.replace('<svg', '<svg width="32" height="32" aria-hidden="true"'));

/** Style of all pages, for light and dark mode and widths from 320 px. */
const PAGE_STYLE = `
  :root { color-scheme: light dark; --link: light-dark(#1f5fbf, #8ab4f8); --line: light-dark(#d7dcd9, #3a443e);
    --card: light-dark(#fff, #181d1a); --faint: light-dark(#5f6b65, #9ba6a0); }
  * { box-sizing: border-box; }
  body { max-width: 46rem; margin: 0 auto; padding: 2.5rem 1rem; color: light-dark(#1a211d, #dbe2de);
    font: 15px/1.55 "Inter Variable", system-ui, "Segoe UI", Roboto, "Noto Sans", sans-serif; overflow-wrap: anywhere;
    background: light-dark(#f7f8f7, #131715); }
  h1 { display: flex; gap: 0.75rem; align-items: center; font-size: 1.5rem; line-height: 1.25; }
  h2 { display: inline-block; margin: 0 0.5rem 0 0; font-size: 1.0625rem; }
  dd { margin: 0 0 0.5rem; }
  a, summary { color: var(--link); cursor: pointer; }
  small, .details, time, .outcome { display: block; font-size: 0.8125rem; }
  .details, time { color: var(--faint); }
  .notice .outcome { display: inline; font-size: 1rem; }
  section, .notice, button { margin: 0 0 0.75rem; padding: 0.75rem 1.25rem; border-radius: 12px;
    border: 1px solid var(--line); background: var(--card); }
  button { min-height: 2.75rem; padding: 0.5rem 1rem; border-radius: 8px; font: inherit; color: inherit; cursor: pointer; }
  button:hover { border-color: var(--link); }
  button:disabled { cursor: not-allowed; opacity: 0.6; }
  :focus-visible { outline: 2px solid var(--link); outline-offset: 2px; }
  .picker button { display: block; width: 100%; max-width: 28rem; padding: 0.75rem 1.25rem; border-radius: 12px;
    font-weight: 600; text-align: start; }
  .picker .details { font-weight: 400; }
  .good { color: light-dark(#1d6f42, #7fd1a0); }
  .wait { color: light-dark(#7a5300, #e6bd67); }
  .bad { color: light-dark(#b3261e, #f2a29b); }
  .actions { display: flex; flex-wrap: wrap; gap: 0 0.75rem; }
  .choices { display: grid; grid-template-columns: repeat(auto-fill, minmax(min(16rem, 100%), 1fr)); }
  fieldset { margin: 0.75rem 0 1rem; min-width: 0; border: 1px solid var(--line); border-radius: 8px; }
  label { display: flex; gap: 0.75rem; align-items: baseline; min-height: 2.75rem; }
  ul { padding: 0; list-style: none; }
  .unseen { position: absolute; width: 1px; height: 1px; overflow: hidden; clip-path: inset(50%);
    white-space: nowrap; }
`;

/**
 * Creates a page that loads no resources.
 * @param redirectUris Redirect URIs of the application, for `form-action`, which also restricts a form's redirects.
 */
export function createPage(title: string, body: Html, redirectUris: readonly string[]): Page {
  const style = rawHtml(`<style>${PAGE_STYLE}</style>`);
  const document = html`<html lang="en">
    <head>
      <meta charset="utf-8" />
      <meta name="viewport" content="width=device-width, initial-scale=1" />
      <title>${title} – Oselya development sign-in</title>
      ${style}
    </head>
    <body>
      <main>
        <h1>${LOGO} ${title}</h1>
        ${body}
      </main>
    </body>
  </html>`;
  const applications = new Set(redirectUris.map((uri) => new URL(uri).origin));
  const policy = [
    `default-src 'none'`,
    `style-src 'sha256-${hash('sha256', PAGE_STYLE, 'base64')}'`,
    `form-action 'self' ${[...applications].join(' ')}`,
    `base-uri 'none'`,
    `frame-ancestors 'none'`,
  ];
  return {
    html: `<!doctype html>\n${document.html}\n`,
    headers: {
      'content-type': 'text/html; charset=utf-8',
      'content-security-policy': policy.join('; '),
      'cache-control': 'no-store',
      'referrer-policy': 'same-origin',
      'x-content-type-options': 'nosniff',
    },
  };
}

/** Renders a link to the application, where a sign-in starts. */
export function createApplicationLink([redirectUri]: readonly string[]): Html {
  const homeUrl = redirectUri === undefined ? '' : new URL('/', redirectUri).href;
  return html`<p><a href="${homeUrl}">Go to the application</a> and sign in from there.</p>`;
}

/** Creates the page for choosing an account. Each account button posts the account's `sub` to the URL of the page. */
export function createPickerPage(
  accounts: readonly DevAccount[],
  redirectUris: readonly string[],
): Page {
  const buttons = accounts.map(({ sub, display_name, email, role_ids, blocked }) => {
    const details = [email, ...role_ids, ...(blocked ? ['blocked'] : [])].join(' · ');
    const disabledAttribute = blocked ? html` disabled` : null;
    return html`<button name="account" value="${sub}" ${disabledAttribute}>
      ${display_name} <span class="details about">${details}</span>
    </button>`;
  });
  const body = html`
    <p>This is the development identity provider: sample accounts, no passwords.</p>
    <form method="post" class="picker">
      ${buttons}
      <button name="action" value="cancel">Cancel</button>
    </form>
  `;
  return createPage('Choose an account', body, redirectUris);
}

/** Creates a page with one paragraph and a link to the application. */
export function createMessagePage(
  title: string,
  text: Html | string,
  redirectUris: readonly string[],
): Page {
  return createPage(
    title,
    html`<p>${text}</p>
      ${createApplicationLink(redirectUris)}`,
    redirectUris,
  );
}

/** Sends a page with its security headers. */
export const sendPage = (reply: FastifyReply, status: number, { html: text, headers }: Page) =>
  reply.code(status).headers(headers).send(text);
