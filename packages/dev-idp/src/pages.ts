import { hash } from 'node:crypto';
import type { FastifyReply } from 'fastify';
import type { ErrorOut, KoaContextWithOIDC } from 'oidc-provider';
import type { DevAccount } from './accounts.ts';

/** A whole HTML page with the headers it must be sent with. */
export interface Page {
  html: string;
  headers: Record<string, string>;
}

const style = `
  :root { color-scheme: light dark; --text: #1c2024; --muted: #5b626a; --page: #f4f5f6;
    --card: #fff; --line: #c9ced3; --accent: #1f5fbf; }
  @media (prefers-color-scheme: dark) {
    :root { --text: #e8eaed; --muted: #a3abb3; --page: #14171a; --card: #1e2226;
      --line: #454c53; --accent: #8ab4f8; }
  }
  * { box-sizing: border-box; }
  body { margin: 0; padding: 3rem 1rem; background: var(--page); color: var(--text);
    font: 1rem/1.5 system-ui, sans-serif; }
  main { max-width: 28rem; margin: 0 auto; padding: 1.5rem; background: var(--card);
    border: 1px solid var(--line); border-radius: 0.75rem; }
  h1 { margin: 0 0 0.5rem; font-size: 1.375rem; }
  p { margin: 0 0 1rem; color: var(--muted); overflow-wrap: anywhere; }
  a { color: var(--accent); }
  ul { margin: 0 0 1rem; padding: 0; list-style: none; }
  li { margin: 0 0 0.5rem; }
  button { display: block; width: 100%; min-height: 2.75rem; margin: 0 0 0.75rem;
    padding: 0.75rem 1rem; text-align: start; font: inherit; color: inherit; background: none;
    border: 1px solid var(--line); border-radius: 0.5rem; cursor: pointer; }
  button:hover:enabled { border-color: var(--accent); }
  button:disabled { cursor: not-allowed; opacity: 0.6; }
  button span, li span { display: block; color: var(--muted); font-size: 0.875rem; }
  button.cancel { margin: 0; text-align: center; border-color: transparent; color: var(--muted); }
  :focus-visible { outline: 3px solid var(--accent); outline-offset: 2px; }
`;
const styleSource = `'sha256-${hash('sha256', style, 'base64')}'`;

/** What this server is, and the accounts that one can sign in as. */
export function homePage(accounts: readonly DevAccount[], redirectUris: readonly string[]): Page {
  const body = `
    <h1>Development identity provider</h1>
    <p>It plays the identity provider while you develop: sample accounts, no passwords. It answers
      on this machine alone.</p>
    <ul>
      ${accounts.map((account) => `<li>${accountLine(account)}</li>`).join('\n')}
    </ul>
    ${goToApplication(redirectUris)}
    <p><a href="/.well-known/openid-configuration">OpenID configuration</a></p>`;
  return page('Development identity provider', body, redirectUris);
}

/** The choice of an account; each button posts its `sub` back to the page's own address. */
export function pickerPage(accounts: readonly DevAccount[], redirectUris: readonly string[]): Page {
  const body = `
    <h1>Choose an account</h1>
    <p>This is the development identity provider: sample accounts, no passwords.</p>
    <form method="post">
      ${accounts.map(accountButton).join('\n')}
      <button class="cancel" name="action" value="cancel">Cancel</button>
    </form>`;
  return page('Choose an account', body, redirectUris);
}

function accountButton(account: DevAccount): string {
  const { sub, blocked } = account;
  return `<button name="account" value="${escape(sub)}"${blocked ? ' disabled' : ''}>
        ${accountLine(account)}
      </button>`;
}

function accountLine({ display_name, email, role_ids, blocked }: DevAccount): string {
  const details = [email, ...role_ids, ...(blocked ? ['blocked'] : [])].join(' · ');
  return `${escape(display_name)} <span>${escape(details)}</span>`;
}

/** Says that an interaction is over or belongs to another browser, and how to begin again. */
export function lostInteractionPage(redirectUris: readonly string[]): Page {
  const body = `
    <h1>This sign-in is no longer open</h1>
    <p>It was finished, took longer than ten minutes, or was begun in another browser or with
      cookies turned off.</p>
    ${goToApplication(redirectUris)}`;
  return page('This sign-in is no longer open', body, redirectUris);
}

/** Says that the posted choice cannot sign in. */
export function unavailableAccountPage(redirectUris: readonly string[]): Page {
  const body = `
    <h1>This account cannot sign in</h1>
    <p>It is blocked, or the provider no longer has it. <a href="">Choose another account</a>.</p>`;
  return page('This account cannot sign in', body, redirectUris);
}

/** Shows an authorization request's error that must not be sent back to the application. */
export function refusalPage(out: ErrorOut, redirectUris: readonly string[]): Page {
  const body = `
    <h1>The sign-in request was refused</h1>
    <p>${escape(out.error)}: ${escape(out.error_description ?? 'no further details')}</p>
    <p>If you run the application, compare its client id and redirect address with the ones the
      provider was started with.</p>
    ${goToApplication(redirectUris)}`;
  return page('The sign-in request was refused', body, redirectUris);
}

function goToApplication([redirectUri]: readonly string[]): string {
  const home = redirectUri === undefined ? '' : new URL('/', redirectUri).href;
  return `<p><a href="${escape(home)}">Go to the application</a> and sign in from there.</p>`;
}

function page(title: string, body: string, redirectUris: readonly string[]): Page {
  const html = `<!doctype html>
<html lang="en">
  <head>
    <meta charset="utf-8">
    <meta name="viewport" content="width=device-width, initial-scale=1">
    <title>${escape(title)} – Oselya development sign-in</title>
    <style>${style}</style>
  </head>
  <body>
    <main>${body}
    </main>
  </body>
</html>
`;
  return { html, headers: pageHeaders(redirectUris) };
}

// Browsers hold the answer to a form to `form-action` through all its redirects, so the application
// that the chosen account is sent back to must be named there.
function pageHeaders(redirectUris: readonly string[]): Record<string, string> {
  const applications = new Set(redirectUris.map((uri) => new URL(uri).origin));
  const policy = [
    `default-src 'none'`,
    `style-src ${styleSource}`,
    `form-action 'self' ${[...applications].join(' ')}`,
    `base-uri 'none'`,
    `frame-ancestors 'none'`,
  ].join('; ');
  return {
    'content-type': 'text/html; charset=utf-8',
    'content-security-policy': policy,
    'cache-control': 'no-store',
    'referrer-policy': 'same-origin',
    'x-content-type-options': 'nosniff',
  };
}

const entities: Record<string, string> = {
  '&': '&amp;',
  '<': '&lt;',
  '>': '&gt;',
  '"': '&quot;',
  "'": '&#39;',
};

function escape(text: string): string {
  return text.replace(/[&<>"']/g, (character) => entities[character] ?? character);
}

/** Answers a request of the provider's own pages. */
export function sendToFastify(reply: FastifyReply, status: number, { html, headers }: Page) {
  return reply.code(status).headers(headers).send(html);
}

/** Answers a request that oidc-provider handles; it has set the status already. */
export function sendToKoa(ctx: KoaContextWithOIDC, { html, headers }: Page): void {
  ctx.set(headers);
  ctx.body = html;
}
