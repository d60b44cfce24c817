import assert from 'node:assert/strict';
import { test } from 'node:test';
import {
  MAX_DRAFTS_CHARACTERS,
  MAX_IMPORT_DEPTH,
  MAX_IMPORTED_RECORDS,
  MAX_LEFT_OUT_LINES,
  MAX_URL_CHARACTERS,
} from '../../src/limits.ts';
import { importing } from '../support/importing.ts';

const many = (count: number, of: (nth: number) => string, separator = '') =>
  Array.from({ length: count }, (_, nth) => of(nth)).join(separator);
const port = (nth: number) => 1 + (nth % 65_535);
const listens = (count: number) =>
  many(count, (nth) => `listen 10.0.${Math.floor(nth / 60_000)}.1:${port(nth)};\n`);
const domains = (count: number) => many(count, (nth) => `n${nth}.example`, ' ');

// With work, or notes, for each pair of an address and what stands beside it, these would not end.
test('more endpoints than the limit are refused as soon as they are there', async () => {
  for (const [from, text] of [
    ['nginx', `server { ${listens(MAX_IMPORTED_RECORDS + 1)} }`],
    [
      'nginx',
      `server { ${listens(200_000)} ${'location / { proxy_pass http://a; }\n'.repeat(100_000)} }`,
    ],
    ['caddy', `${many(MAX_IMPORTED_RECORDS + 1, (nth) => `a:${port(nth)}`, ', ')} {\n}\n`],
    ['nginx', `stream { server { listen 1-${MAX_IMPORTED_RECORDS + 1}; } }`],
    ['nginx', `server { ${`listen 1-${MAX_IMPORTED_RECORDS};\n`.repeat(100_000)} }`],
    ['openapi', `{"servers": [${'{"url": "https://a/"},'.repeat(200_000)}{}]}`],
  ] as const) {
    const { status, stdout, stderr } = await importing(from, text);
    assert.match(
      stderr,
      new RegExp(`more than ${MAX_IMPORTED_RECORDS} endpoints; import it in parts`),
    );
    assert.deepEqual([status, stdout], [2, '']);
  }
});

test('drafts list the first names and targets, and count the others', async () => {
  const passes = many(20_000, (nth) => `location /${nth} { proxy_pass http://u${nth}; }\n`);
  const server = await importing(
    'nginx',
    `server { ${listens(1_000)} server_name ${domains(100_000)}; ${passes} }`,
  );
  const drafts = JSON.parse(server.stdout);
  assert.equal(drafts.length, 1_000);
  const { domain, notes } = drafts.at(-1);
  assert.equal(domain, 'n0.example');
  assert.match(
    notes,
    /^Also n1\.example, .* n10\.example and 99989 more\. Passes to http:\/\/u0\./,
  );
  assert.match(notes, /Passes to http:\/\/u9\. Passes to 19990 more\.$/);
  const site = await importing(
    'caddy',
    `${many(1_000, (nth) => `a${nth}`, ', ')} {\n${many(20_000, (nth) => `reverse_proxy u${nth}\n`)}}\n`,
  );
  assert.equal(JSON.parse(site.stdout).length, 1_000);
  assert.match(JSON.parse(site.stdout)[0].notes, /Passes to u9\. Passes to 19990 more\.$/);
});

const nginx = (levels: number) => `${'a {'.repeat(levels)}${'}'.repeat(levels)}`;
const caddy = (levels: number) => `${'a {\n'.repeat(levels)}${'}\n'.repeat(levels)}`;

test('blocks nest no deeper than the limit, and texts may be as long as the file', async () => {
  const deep = MAX_IMPORT_DEPTH + 1;
  for (const [from, text] of [
    ['nginx', nginx(deep)],
    ['nginx', 'a{'.repeat(2_000_000)],
    ['caddy', caddy(deep)],
    ['caddy', 'a {\n'.repeat(2_000_000)],
  ] as const) {
    const { status, stderr } = await importing(from, text);
    assert.match(stderr, /nested more than 200 levels deep; give a part/);
    assert.equal(status, 2);
  }
  const quote = `"${'x\\n'.repeat(4 * 1024 * 1024)}"`;
  for (const [from, text] of [
    ['nginx', `${nginx(MAX_IMPORT_DEPTH)} log_format a ${quote}; server { listen 80; }`],
    ['caddy', `(a) {\n${caddy(MAX_IMPORT_DEPTH - 1)}}\n:80 {\n respond ${quote}\n}\n`],
    ['caddy', `:80 {\n${' respond <<A\n}A\n'.repeat(100_000)}}\n`],
    ['caddy', `:80 {\n respond ${'{$A:b}'.repeat(300_000)}${'{$'.repeat(300_000)}\n}\n`],
  ] as const) {
    const { status, stdout, stderr } = await importing(from, text);
    assert.deepEqual([status, stderr, JSON.parse(stdout).length], [0, '', 1]);
  }
});

test('what is left out is told up to a number of lines, and the rest counted', async () => {
  for (const [from, text] of [
    ['nginx', numbered((nth) => `include ${nth}.conf;\n`)],
    ['caddy', `${numbered((nth) => `{$A${nth}} `)}{\n}\n`],
  ] as const) {
    const { stderr } = await importing(from, text);
    const lines = stderr.trimEnd().split('\n');
    // The last one says that nothing was found.
    assert.equal(lines.length, MAX_LEFT_OUT_LINES + 2);
    assert.match(lines.at(-2) ?? '', /left out: 499980 more$/);
  }
});

test('what is left out many times is told once', async () => {
  const { stderr } = await importing('nginx', 'include a.conf;\n'.repeat(500_000));
  assert.equal(stderr.match(/left out/g)?.length, 1);
});

function numbered(write: (nth: number) => string): string {
  return Array.from({ length: 500_000 }, (_, nth) => write(nth)).join('');
}

test('drafts do not multiply a text', async () => {
  const long = 'x'.repeat(MAX_DRAFTS_CHARACTERS / 100);
  const same = Array.from({ length: 101 }, () => ({ url: 'https://a.example/' }));
  const api = { info: { title: long }, servers: same };
  const named = await importing('openapi', JSON.stringify(api));
  assert.match(named.stderr, /its drafts take more than 32 MiB; import it in parts/);
  const url = `https://a.example/${'{x}'.repeat(2_000)}`;
  const variables = { x: { default: long } };
  const servers = Array.from({ length: 30 }, () => ({ url, variables }));
  const address = await importing('openapi', JSON.stringify({ servers }));
  assert.match(address.stderr, new RegExp(`is longer than ${MAX_URL_CHARACTERS} characters`));
  assert.equal(address.stdout, '[]\n');
});
