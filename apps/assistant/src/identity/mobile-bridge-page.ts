import { createHash } from 'node:crypto';
import { html, rawHtml } from '@oselya/kit';

const FALLBACK_DELAY_MS = 1500;

const STYLE = `
:root { color-scheme: dark; }
body { margin: 0; min-height: 100vh; display: grid; place-items: center; background: #101418; color: #e6eaee;
  font: 16px/1.5 system-ui, sans-serif; }
main { margin: 1rem; padding: 2rem; border: 2px solid #3fb950; border-radius: .75rem; text-align: center; }
h1 { margin: 0 0 .5rem; font-size: 1.25rem; }
p { margin: 0; }
a { display: inline-block; margin-top: 1.5rem; padding: .75rem 1.5rem; border-radius: .5rem;
  background: #3fb950; color: #101418; font-weight: 600; text-decoration: none; }
a[hidden] { display: none; }
`;

/** Script that reads the URL from the link, so that the script and its hash are the same for every page. */
const SCRIPT = `
const link = document.getElementById('open');
location.href = link.href;
setTimeout(() => { link.hidden = false; }, ${FALLBACK_DELAY_MS});
`;

// The Content-Security-Policy contains hashes of these texts, so the formatter must not change them.
const STYLE_ELEMENT = rawHtml(`<style>${STYLE}</style>`);
const SCRIPT_ELEMENT = rawHtml(`<script>${SCRIPT}</script>`);

const hashSource = (text: string) =>
  `'sha256-${createHash('sha256').update(text).digest('base64')}'`;

/** Content-Security-Policy that allows only the script and the style of the bridge page. */
export const MOBILE_BRIDGE_CSP = [
  "default-src 'none'",
  `script-src ${hashSource(SCRIPT)}`,
  `style-src ${hashSource(STYLE)}`,
  "base-uri 'none'",
  "form-action 'none'",
  "frame-ancestors 'none'",
].join('; ');

/** Renders the page that passes an auth session to the application. Specification 000, Rules for the bridge page. */
export function renderMobileBridgePage(sessionId: string, appPackage: string): string {
  const intent = `intent://auth/callback?sid=${sessionId}#Intent;scheme=svc;package=${appPackage};end`;
  return `<!doctype html>
${
  html`<html lang="en">
    <head>
      <meta charset="utf-8" />
      <meta name="viewport" content="width=device-width, initial-scale=1" />
      <title>Signed in · Oselya</title>
      ${STYLE_ELEMENT}
    </head>
    <body>
      <main>
        <h1>You are signed in</h1>
        <p>Returning to the application…</p>
        <a id="open" href="${intent}" hidden>Open the application</a>
        <noscript
          ><p><a href="${intent}">Open the application</a></p></noscript
        >
      </main>
      ${SCRIPT_ELEMENT}
    </body>
  </html>`.html
}
`;
}
