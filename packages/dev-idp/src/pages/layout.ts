import { html, type Html, raw } from '@oselya/kit';
import type { FastifyReply } from 'fastify';
import type { KoaContextWithOIDC } from 'oidc-provider';
import { style, styleSource } from './style.ts';

/** A whole HTML page with the headers it must be sent with. */
export type Page = {
  html: string;
  headers: Record<string, string>;
};

// The browser compares the element's whole text with the hash: nothing may be put around it.
const styleElement = raw(`<style>${style}</style>`);

/**
 * Puts a page together. It loads nothing.
 *
 * @param redirectUris the application's addresses: its forms may lead there
 * @param look the class of the page's body, which the style knows
 */
export function page(
  title: string,
  body: Html,
  redirectUris: readonly string[],
  look: 'plain' | 'control' = 'plain',
): Page {
  const document = html`<html lang="en">
    <head>
      <meta charset="utf-8" />
      <meta name="viewport" content="width=device-width, initial-scale=1" />
      <title>${title} – Oselya development sign-in</title>
      ${styleElement}
    </head>
    <body class="${look}">
      <main>${body}</main>
    </body>
  </html>`;
  return { html: `<!doctype html>\n${document.html}\n`, headers: pageHeaders(redirectUris) };
}

/** Where a sign-in begins. */
export function goToApplication([redirectUri]: readonly string[]): Html {
  const home = redirectUri === undefined ? '' : new URL('/', redirectUri).href;
  return html`<p><a href="${home}">Go to the application</a> and sign in from there.</p>`;
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

/** Answers a request of the provider's own pages. */
export function sendToFastify(reply: FastifyReply, status: number, { html: text, headers }: Page) {
  return reply.code(status).headers(headers).send(text);
}

/** Answers a request that oidc-provider handles; it has set the status already. */
export function sendToKoa(ctx: KoaContextWithOIDC, { html: text, headers }: Page): void {
  ctx.set(headers);
  ctx.body = text;
}
