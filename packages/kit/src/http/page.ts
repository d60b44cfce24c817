import { createHash } from 'node:crypto';
import { IncomingMessage, ServerResponse } from 'node:http';
import { Socket } from 'node:net';
import type { FastifyInstance } from 'fastify';
import helmet from 'helmet';

/** Text that is safe to put into HTML as it is. */
export type Html = { readonly html: string };

type Part = Html | string | number | null | undefined | readonly Html[];

/** Escapes text for HTML, between tags and inside quoted attributes. */
export function escapeHtml(text: string): string {
  return text.replaceAll(/[&<>"']/g, (character) => `&#${character.charCodeAt(0)};`);
}

/** Marks text that is HTML already. */
export function raw(text: string): Html {
  return { html: text };
}

/** Builds HTML from a template; parts that are not HTML themselves are escaped. */
export function html(strings: TemplateStringsArray, ...parts: Part[]): Html {
  return raw(strings.map((text, index) => text + render(parts[index])).join(''));
}

function render(part: Part): string {
  if (part === null || part === undefined) return '';
  if (typeof part === 'string' || typeof part === 'number') return escapeHtml(String(part));
  if ('html' in part) return part.html;
  return part.map((one) => one.html).join('');
}

/** Formats text: between backticks it is code. */
export function withCode(text: string): Html {
  const parts = text.split('`');
  // A backtick without a partner stays as it is.
  if (parts.length % 2 === 0) return html`${text}`;
  return html`${parts.map((part, index) => (index % 2 === 0 ? html`${part}` : html`<code>${part}</code>`))}`;
}

// Links and faint text keep a contrast of 4.5:1 with the page, which browsers make white or near black.
const STYLE = `
:root { color-scheme: light dark; --accent: #2f7d5b; --link: #2f7d5b; }
@media (prefers-color-scheme: dark) { :root { --link: #7fd1a0; } }
body { font: 16px/1.5 system-ui, sans-serif; max-width: 42rem; margin: 4rem auto; padding: 0 1rem; }
h1 { font-size: 1.5rem; }
a { color: var(--link); }
button, .button { font: inherit; padding: .5rem 1rem; border: 1px solid var(--accent); border-radius: .4rem;
  background: var(--accent); color: #fff; text-decoration: none; cursor: pointer; display: inline-block; }
code { font-size: .9em; }
dl { display: grid; grid-template-columns: max-content 1fr; gap: .25rem 1rem; }
dt { opacity: .75; } dd { margin: 0; overflow-wrap: anywhere; }
small { opacity: .75; overflow-wrap: anywhere; }
`;

// The browser compares the element's whole text with the hash, so nothing may surround it.
const STYLE_ELEMENT = raw(`<style>${STYLE}</style>`);

/** The value of `style-src` that permits the page's own style only. */
export const PAGE_STYLE_HASH = `'sha256-${createHash('sha256').update(STYLE).digest('base64')}'`;

/**
 * Renders a page in the platform's style. It loads nothing but the content of `head`, which the content security policy
 * of the route has to allow.
 */
export function renderPage(page: {
  title: string;
  body: Html;
  head?: Html;
  lang?: string;
}): string {
  return `<!doctype html>
${
  html`<html lang="${page.lang ?? 'en'}">
    <head>
      <meta charset="utf-8" />
      <meta name="viewport" content="width=device-width, initial-scale=1" />
      <title>${page.title} · Oselya</title>
      ${STYLE_ELEMENT} ${page.head}
    </head>
    <body>
      <main>${page.body}</main>
    </body>
  </html>`.html
}
`;
}

/** Pages of the platform run no script and load nothing from elsewhere, unless their route says so. */
const setHeaders = helmet({
  contentSecurityPolicy: {
    useDefaults: false,
    directives: {
      defaultSrc: ["'none'"],
      styleSrc: ["'self'", PAGE_STYLE_HASH],
      imgSrc: ["'self'"],
      formAction: ["'self'"],
      frameAncestors: ["'none'"],
      baseUri: ["'none'"],
    },
  },
  referrerPolicy: { policy: 'no-referrer' },
  // Transport security belongs to the proxy that terminates TLS; over plain HTTP it has no effect.
  strictTransportSecurity: false,
});

/**
 * The security headers of every answer, from helmet. They are recorded once, since setting them anew for each request
 * took a fifth of a fast answer.
 */
export const securityHeaders: Readonly<Record<string, string>> = recorded();

function recorded(): Record<string, string> {
  const request = new IncomingMessage(new Socket());
  const response = new ServerResponse(request);
  setHeaders(request, response, (error) => {
    if (error !== undefined) throw error;
  });
  return Object.fromEntries(
    Object.entries(response.getHeaders()).map(([name, value]) => [name, String(value)]),
  );
}

/** The platform's icon in browser tabs: a house. */
const ICON = `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 32 32">
  <rect width="32" height="32" rx="7" fill="#2f7d5b"/>
  <path d="M6 16.5 16 8l10 8.5M9 15v9h14v-9" fill="none" stroke="#fff" stroke-width="3"
    stroke-linecap="round" stroke-linejoin="round"/>
</svg>
`;

/** Serves the icon where browsers look for one. */
export function iconRoute(app: FastifyInstance): void {
  const options = {
    config: { operational: true },
    schema: { hide: true },
    logLevel: 'warn',
  } as const;
  app.get('/favicon.ico', options, (_request, reply) =>
    reply.header('cache-control', 'max-age=86400').type('image/svg+xml').send(ICON),
  );
}
