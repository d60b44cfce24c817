import assert from 'node:assert/strict';
import { mkdir, symlink, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { test } from 'node:test';
import { openFolder } from '@oselya/testing';
import { ImportError } from '../src/import/draft.ts';
import { importNginx } from '../src/import/nginx.ts';
import {
  MAX_COMPOSE_BYTES,
  MAX_DRAFT_CHARACTERS,
  MAX_IMPORT_DEPTH,
  MAX_IMPORTED_RECORDS,
  MAX_INCLUDED_FILES,
  MAX_SKIPPED_LINES,
  MAX_TEXT_BYTES,
  MAX_YAML_ALIASES,
  MAX_YAML_BYTES,
} from '../src/limits.ts';
import { runImport } from './support.ts';

const repeatLine = (count: number, createLine: (index: number) => string, separator = '') =>
  Array.from({ length: count }, (_, index) => createLine(index)).join(separator);
const createServices = (...lines: string[]) => `services:\n${lines.join('\n')}\n`;
const createPort = (index: number) => 1 + (index % 65_535);
const createServerBlock = (name: string) => `server { server_name ${name}; }`;
const createListenDirective = (index: number) =>
  `listen 10.0.${Math.floor(index / 60_000)}.1:${createPort(index)};\n`;
const createListenDirectives = (count: number) => repeatLine(count, createListenDirective);

test('Included files must be in the folder, also through links, and are limited', async () => {
  const root = await openFolder();
  const folderPath = join(root, 'nginx');
  for (const folder of ['available', 'enabled/folder', '../nginx-other']) {
    await mkdir(join(folderPath, folder), { recursive: true });
  }
  await writeFile(
    join(folderPath, 'available', 'inside'),
    createServerBlock('inside.example.test'),
  );
  await writeFile(join(root, 'outside'), createServerBlock('outside.example.test'));
  await writeFile(join(root, 'nginx-other', 'beside'), createServerBlock('beside.example.test'));
  await symlink('../available/inside', join(folderPath, 'enabled', 'inside'));
  await symlink('../../outside', join(folderPath, 'enabled', 'outside'));
  await symlink('../nowhere', join(folderPath, 'enabled', 'nowhere'));
  const importText = (text: string) => {
    const { endpoints, skippedParts } = importNginx(text, { path: folderPath, file: undefined });
    return [endpoints.map(({ domain }) => domain), skippedParts];
  };
  for (const [pattern, domains, reason] of [
    ['enabled/*', ['inside.example.test'], 'it is outside the folder'],
    ['../nginx-other/*', [], 'it is outside the folder'],
    [join(folderPath, 'available', 'i?side'), ['inside.example.test'], null],
    ['none', [], 'there is no such file in the folder'],
    ['enabled/nowhere', [], 'there is no such file in the folder'],
  ] as const) {
    const lines = reason === null ? [] : [`include ${pattern}: ${reason}`];
    assert.deepEqual(importText(`include ${pattern};`), [domains, lines]);
  }
  await writeFile(join(folderPath, 'some'), 'include more; '.repeat(MAX_INCLUDED_FILES / 10));
  await writeFile(join(folderPath, 'more'), '# nothing');
  assert.deepEqual(importText('include some; '.repeat(9)), [[], []]);
  assert.throws(() => importText('include some; '.repeat(10)), ImportError);
  await writeFile(join(folderPath, 'large'), ' '.repeat(MAX_TEXT_BYTES / 2 + 1));
  assert.deepEqual(importText('include large;'), [[], []]);
  assert.throws(() => importText('include large; include large;'), ImportError);
});

const EXCESSIVE_DEPTH = MAX_IMPORT_DEPTH + 50;
const TOO_MANY_MESSAGE = /more than 20000 endpoints; import it in parts/;
const TOO_DEEP_MESSAGE = /nested more than 200 levels deep; flatten it/;

// Without limits, most of these texts would take too much time or memory.
test('A text beyond a limit is rejected with the limit and a hint', async () => {
  for (const [from, text, message] of [
    ['nginx', ' '.repeat(MAX_TEXT_BYTES + 1), /larger than 16 MiB; use only a part of it/],
    ['nginx', `server { ${createListenDirectives(MAX_IMPORTED_RECORDS + 1)} }`, TOO_MANY_MESSAGE],
    [
      'nginx',
      `server { ${`listen 1-${MAX_IMPORTED_RECORDS};\n`.repeat(100_000)} }`,
      TOO_MANY_MESSAGE,
    ],
    ['nginx', 'server { listen unix:/x; }'.repeat(MAX_IMPORTED_RECORDS + 1), TOO_MANY_MESSAGE],
    ['nginx', 'a{'.repeat(2_000_000), TOO_DEEP_MESSAGE],
    [
      'caddy',
      `${repeatLine(MAX_IMPORTED_RECORDS + 1, (index) => `a:${createPort(index)}`, ', ')} {\n}\n`,
      TOO_MANY_MESSAGE,
    ],
    ['caddy', 'a {\n'.repeat(EXCESSIVE_DEPTH), TOO_DEEP_MESSAGE],
    ['openapi', `{"servers": [${'{"url": "https://a/"},'.repeat(200_000)}{}]}`, TOO_MANY_MESSAGE],
    ['openapi', `a: ${' '.repeat(MAX_YAML_BYTES)}`, /is limited to 4 MiB; convert it to JSON/],
    ['compose', `a: ${' '.repeat(MAX_COMPOSE_BYTES)}`, /is limited to 512 KiB; convert it to JSON/],
    ['compose', `{"a": "${' '.repeat(MAX_COMPOSE_BYTES)}",\n}`, /: 2:1: there is a comma before/],
    ['compose', createServices(' a: { ports: ["1-20001:1-20001"] }'), TOO_MANY_MESSAGE],
    [
      'compose',
      `a: ${'['.repeat(EXCESSIVE_DEPTH)}${']'.repeat(EXCESSIVE_DEPTH)}`,
      TOO_DEEP_MESSAGE,
    ],
    ['compose', '- '.repeat(EXCESSIVE_DEPTH), TOO_DEEP_MESSAGE],
    ['compose', ']'.repeat(MAX_COMPOSE_BYTES), /is limited to 262144 words, marks and spaces/],
    // The text has many errors. Only the first error is reported.
    ['compose', `a: 1\nb: ${'"" '.repeat(50_000)}`, /: line 2: .*; correct it, or use a file of/],
    ['compose', `a: &a 1\nb: [${'*a, '.repeat(MAX_YAML_ALIASES + 1)}]`, /more than 1000 aliases/],
    [
      'compose',
      `a: &a [1, 1]\n${repeatLine(9, (index) => {
        const [previousName, name] = 'abcdefghij'.slice(index);
        return `${name}: &${name} [${`*${previousName}, `.repeat(9)}]\n`;
      })}`,
      /its aliases expand too far/,
    ],
    ['compose', 'a: 1\n---\nb: 2\n', /several documents; put each into a separate file/],
    ['compose', 'a: 1\nb:\n  x: 1\n  x: 2\n', /line 4: the key "x" is already in this mapping/],
  ] as const) {
    const { status, stdout, stderr } = await runImport(from, text);
    assert.match(stderr, message, `${from}: ${text.slice(0, 60)}`);
    assert.deepEqual([status, stdout, stderr.split('\n').length], [2, '', 2]);
  }
});

test('Long texts, brackets in texts and many lists are within the limits', async () => {
  const quotedText = `"${'x\\n'.repeat(4 * 1024 * 1024)}"`;
  const blockLines = repeatLine(EXCESSIVE_DEPTH, () => '  [\n  {\n  - - "[["\n');
  const listLines = repeatLine(EXCESSIVE_DEPTH, () => '- {a: [[], "[[", {}]}\n');
  for (const [from, text] of [
    [
      'nginx',
      `${'a {'.repeat(MAX_IMPORT_DEPTH)}${'}'.repeat(MAX_IMPORT_DEPTH)} log_format a ${quotedText}; server { listen 80; }`,
    ],
    ['caddy', `:80 {\n${' respond <<A\n}A\n'.repeat(100_000)}}\n`],
    [
      'compose',
      `x-text: |\n${blockLines}x-quoted: "${'['.repeat(300)}"\n# ${'['.repeat(300)}\nx-lists:\n${listLines}${createServices(' a: { ports: ["80:80"] }')}`,
    ],
  ] as const) {
    const { status, stdout, stderr } = await runImport(from, text);
    assert.deepEqual([status, stderr, JSON.parse(stdout).length], [0, '', 1], text.slice(0, 60));
    assert.ok(stdout.length < 1_000, `${stdout.length} characters`);
  }
});

test('Drafts and messages list the first items, count further items, and stay small', async () => {
  const locations = repeatLine(
    2_000,
    (index) => `location /${index} { proxy_pass http://u${index}; }\n`,
  );
  const domains = repeatLine(10_000, (index) => `n${index}.example`, ' ');
  const server = `server { ${createListenDirectives(1_000)} server_name ${domains}; ${locations} }`;
  const drafts = JSON.parse((await runImport('nginx', server)).stdout);
  assert.deepEqual([drafts.length, drafts.at(-1).domain], [1_000, 'n0.example']);
  assert.match(
    drafts.at(-1).notes,
    /^Also n1\.example, .* n10\.example and 9989 more\. Passes to http:\/\/u0\..* and 1990 more$/,
  );
  for (const [from, text] of [
    ['nginx', repeatLine(50_000, (index) => `include ${index}.conf;\n`)],
    ['caddy', `${repeatLine(50_000, (index) => `{$A${index}} `)}{\n}\n`],
  ] as const) {
    const lines = (await runImport(from, text)).stderr.trimEnd().split('\n');
    // The last line reports that there are no endpoints.
    assert.equal(lines.length, MAX_SKIPPED_LINES + 2);
    assert.match(lines.at(-2) ?? '', /skipped: 49980 more$/);
  }
  const title = 'x'.repeat(MAX_DRAFT_CHARACTERS / 100);
  const servers = Array.from({ length: 101 }, () => ({ url: 'https://a.example/' }));
  const result = await runImport('openapi', JSON.stringify({ info: { title }, servers }));
  assert.match(result.stderr, /its drafts take more than 32 MiB; import it in parts/);
});
