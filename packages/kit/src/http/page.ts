import { hash } from 'node:crypto';
import type { FastifyInstance } from 'fastify';

/** Safe HTML, which is inserted into a page without escaping. */
export type Html = { readonly html: string };

type HtmlValue = Html | string | number | null | undefined | readonly Html[];

/** Escapes text for use between HTML tags and in quoted attributes. */
export function escapeHtml(text: string): string {
  return text.replaceAll(/[&<>"']/g, (character) => `&#${character.charCodeAt(0)};`);
}

/** Marks text as safe HTML. */
export function rawHtml(text: string): Html {
  return { html: text };
}

/** Builds HTML from a template. Escapes all parts that are not `Html`. */
export function html(strings: TemplateStringsArray, ...values: HtmlValue[]): Html {
  return rawHtml(strings.map((text, index) => text + renderValue(values[index])).join(''));
}

function renderValue(value: HtmlValue): string {
  if (value === null || value === undefined) return '';
  if (typeof value === 'string' || typeof value === 'number') return escapeHtml(String(value));
  if ('html' in value) return value.html;
  return value.map((fragment) => fragment.html).join('');
}

/** Escapes text for HTML, and renders the parts between backticks as code. */
export function renderInlineCode(text: string): Html {
  const parts = text.split('`');
  // If a backtick is unpaired, no text is code.
  if (parts.length % 2 === 0) return html`${text}`;
  return html`${parts.map((part, index) => (index % 2 === 0 ? html`${part}` : html`<code>${part}</code>`))}`;
}

// The colours are those of the console. Links and faint text have a contrast of at least 4.5:1 in light and dark mode.
const PAGE_STYLE = `
:root { color-scheme: light dark; --accent: #2f7d5b; --link: light-dark(#266a4d, #8dccaa);
  --text: light-dark(#1a211d, #dbe2de); --faint: light-dark(#5f6b65, #9ba6a0); --line: light-dark(#e5e9e7, #2c3430);
  --surface: light-dark(#f7f8f7, #131715); --card: light-dark(#fff, #181d1a); }
* { box-sizing: border-box; }
body { margin: 0; min-height: 100vh; padding: 3rem 1rem; background: var(--surface); color: var(--text);
  font: 15px/1.55 "Inter Variable", system-ui, "Segoe UI", Roboto, "Noto Sans", sans-serif; }
.brand { display: flex; gap: .6rem; align-items: center; width: fit-content; margin: 0 auto 1.5rem; font-size: 1.1rem;
  font-weight: 650; color: inherit; text-decoration: none; }
main { max-width: 34rem; margin: 0 auto; padding: 1.75rem 2rem; border: 1px solid var(--line); border-radius: 16px;
  background: var(--card); overflow-wrap: anywhere; }
h1 { margin: 0 0 .75rem; font-size: 1.5rem; line-height: 1.25; text-wrap: balance; }
a { color: var(--link); }
button, .button { font: inherit; font-weight: 600; min-height: 2.6rem; padding: .5rem 1.1rem; border: 0; border-radius: 8px;
  background: var(--accent); color: #fff; text-decoration: none; cursor: pointer; display: inline-block; }
:focus-visible { outline: 2px solid var(--link); outline-offset: 2px; }
code { font-size: .9em; }
dl { display: grid; grid-template-columns: max-content 1fr; gap: .35rem 1.25rem; }
dt { color: var(--faint); } dd { margin: 0; overflow-wrap: anywhere; }
small { color: var(--faint); overflow-wrap: anywhere; }
`;

const FAVICON = `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 32 32">
  <rect width="32" height="32" rx="7" fill="#2f7d5b"/>
  <path d="M6 16.5 16 8l10 8.5M9 15v9h14v-9" fill="none" stroke="#fff" stroke-width="3"
    stroke-linecap="round" stroke-linejoin="round"/>
</svg>
`;

const LOGO = rawHtml(FAVICON.replace('<svg', '<svg width="28" height="28" aria-hidden="true"'));

// Browsers hash the whole element content, so it must contain only the style.
const STYLE_ELEMENT = rawHtml(`<style>${PAGE_STYLE}</style>`);

/** Source expression for `style-src` that allows only the page style. */
export const PAGE_STYLE_HASH = `'sha256-${hash('sha256', PAGE_STYLE, 'base64')}'`;

/**
 * Renders a page in the platform's style.
 * @param page.head Elements for the head. The route's content security policy must allow the resources that they load.
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
      <div class="brand">${LOGO} Oselya</div>
      <main>${page.body}</main>
    </body>
  </html>`.html
}
`;
}

/**
 * Default headers: no scripts, and no resources from other origins. Routes may override them. The proxy that terminates
 * TLS sets `Strict-Transport-Security`.
 */
export const securityHeaders: Readonly<Record<string, string>> = {
  'content-security-policy': `default-src 'none';style-src 'self' ${PAGE_STYLE_HASH};img-src 'self';form-action 'self';frame-ancestors 'none';base-uri 'none'`,
  'cross-origin-opener-policy': 'same-origin',
  'cross-origin-resource-policy': 'same-origin',
  'origin-agent-cluster': '?1',
  'referrer-policy': 'no-referrer',
  'x-content-type-options': 'nosniff',
  'x-dns-prefetch-control': 'off',
  'x-download-options': 'noopen',
  'x-frame-options': 'SAMEORIGIN',
  'x-permitted-cross-domain-policies': 'none',
  'x-xss-protection': '0',
};

/** Registers `GET /favicon.ico`. */
export function registerIconRoute(app: FastifyInstance): void {
  const options = {
    config: { operational: true },
    schema: { hide: true },
    logLevel: 'warn',
  } as const;
  app.get('/favicon.ico', options, (_request, reply) =>
    reply.header('cache-control', 'max-age=86400').type('image/svg+xml').send(FAVICON),
  );
}
