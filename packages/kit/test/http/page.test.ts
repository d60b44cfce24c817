import assert from 'node:assert/strict';
import { test } from 'node:test';
import { createLogger, createServer } from '../../src/index.ts';
import { renderPage, withCode } from '../../src/http/page.ts';

test('what stands between backticks is code, and all of it is escaped', () => {
  for (const [text, html] of [
    ['no code', 'no code'],
    ['see `errors`', 'see <code>errors</code>'],
    ['`a` and `<b>` & c', '<code>a</code> and <code>&#60;b&#62;</code> &#38; c'],
    ['one ` alone', 'one ` alone'],
    ['', ''],
  ] as const) {
    assert.equal(withCode(text).html, html);
  }
});

/** Relative luminance of `#rrggbb`. WCAG 2.2. */
function luminance(colour: string): number {
  const [r = 0, g = 0, b = 0] = [1, 3, 5].map((at) => {
    const value = Number.parseInt(colour.slice(at, at + 2), 16) / 255;
    return value <= 0.04045 ? value / 12.92 : ((value + 0.055) / 1.055) ** 2.4;
  });
  return 0.2126 * r + 0.7152 * g + 0.0722 * b;
}

function contrast(one: string, other: string): number {
  const [dark = 0, light = 0] = [luminance(one), luminance(other)].toSorted((a, b) => a - b);
  return (light + 0.05) / (dark + 0.05);
}

test('links and buttons can be read in light and in dark', () => {
  const style = renderPage({ title: '', body: withCode('') });
  const [light = '', dark = ''] = [...style.matchAll(/--link: (#\w{6})/g)].map(([, hex]) => hex);
  const [, accent = ''] = /--accent: (#\w{6})/.exec(style) ?? [];
  assert.ok(contrast(light, '#ffffff') >= 4.5);
  // Chromium's page in dark is #121212, Firefox's #1c1b22.
  assert.ok(contrast(dark, '#1c1b22') >= 4.5);
  assert.ok(contrast(accent, '#ffffff') >= 4.5);
});

test('every server has an icon where browsers look for one', async (t) => {
  const app = await createServer({
    log: createLogger({ level: 'silent', service: 'test' }),
    bodyLimit: 1000,
    openapi: { title: 'Test', description: 'A test.', version: '1' },
  });
  t.after(() => app.close());
  const icon = await app.inject('/favicon.ico');
  assert.equal(icon.statusCode, 200);
  assert.equal(icon.headers['content-type'], 'image/svg+xml');
  assert.match(icon.body, /^<svg /);
  assert.match(String(icon.headers['cache-control']), /max-age/);
});
