import { createHash } from 'node:crypto';

/** Text that is safe to put into HTML as it is. */
export type Html = { readonly html: string };

type Part = Html | string | number | null | undefined | readonly Html[];

/** Makes text safe for HTML, between tags and inside quoted attributes. */
export function escapeHtml(text: string): string {
  return text.replaceAll(/[&<>"']/g, (character) => `&#${character.charCodeAt(0)};`);
}

/** Marks text that is HTML already. */
export function raw(text: string): Html {
  return { html: text };
}

/** Builds HTML; whatever is put in is escaped unless it is HTML itself. */
export function html(strings: TemplateStringsArray, ...parts: Part[]): Html {
  return raw(strings.map((text, index) => text + render(parts[index])).join(''));
}

function render(part: Part): string {
  if (part === null || part === undefined) return '';
  if (typeof part === 'string' || typeof part === 'number') return escapeHtml(String(part));
  if ('html' in part) return part.html;
  return part.map((one) => one.html).join('');
}

/** Text in which what stands between backticks is code. */
export function withCode(text: string): Html {
  const parts = text.split('`');
  // A backtick without a partner is one.
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

// The browser compares the element's whole text with the hash: nothing may be put around it.
const STYLE_ELEMENT = raw(`<style>${STYLE}</style>`);

/** The value of `style-src` that lets the page's own style through, and nothing else. */
export const PAGE_STYLE_HASH = `'sha256-${createHash('sha256').update(STYLE).digest('base64')}'`;

/**
 * A whole page in the platform's plain style; it loads nothing but what `head` asks for, which the
 * route's content security policy has to allow.
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
