import assert from 'node:assert/strict';
import { test } from 'node:test';
import {
  MAX_COMPOSE_BYTES,
  MAX_IMPORT_DEPTH,
  MAX_IMPORTED_RECORDS,
  MAX_TEXT_BYTES,
  MAX_YAML_ALIASES,
  MAX_YAML_BYTES,
} from '../../src/limits.ts';
import { importing } from '../support/importing.ts';

const services = (lines: Iterable<string>) => `services:\n${[...lines].join('\n')}\n`;
const many = (count: number, line: (nth: number) => string) =>
  Array.from({ length: count }, (_, nth) => line(nth));

test('what is beyond a limit is told with the limit and what to do, and nothing is printed', async () => {
  const deep = MAX_IMPORT_DEPTH + 50;
  for (const [from, text, message] of [
    ['nginx', ' '.repeat(MAX_TEXT_BYTES + 1), /larger than 16 MiB; give a part of it/],
    ['openapi', `a: ${' '.repeat(MAX_YAML_BYTES)}`, /is read up to 4 MiB.*give it as JSON/],
    ['compose', `a: ${' '.repeat(MAX_COMPOSE_BYTES)}`, /is read up to 512 KiB.*give it as JSON/],
    ['compose', `{"a": "${' '.repeat(MAX_COMPOSE_BYTES)}",\n}`, /: 2:1: a comma stands before/],
    ['compose', services([' a: { ports: ["1-20001:1-20001"] }']), /more than 20000 endpoints/],
    [
      'compose',
      services(many(300, (nth) => ` s${nth}: { ports: ["1-65535:1-65535"] }`)),
      /more than 20000 endpoints; import it in parts/,
    ],
    [
      'openapi',
      `{"servers": [${many(MAX_IMPORTED_RECORDS + 1, () => '{"url": "https://a/"}').join()}]}`,
      /more than 20000 endpoints; import it in parts/,
    ],
    ['compose', `a: ${'['.repeat(deep)}${']'.repeat(deep)}`, /more than 200 levels deep; give/],
    ['compose', `a: ${'['.repeat(100_000)}`, /more than 200 levels deep; give/],
    ['openapi', '['.repeat(MAX_YAML_BYTES), /more than 200 levels deep; give/],
    ['compose', '- '.repeat(deep), /more than 200 levels deep; give/],
    ['compose', ': '.repeat(deep), /more than 200 levels deep; give/],
    ['compose', ']'.repeat(MAX_COMPOSE_BYTES), /more than 262144 words, marks and spaces; give/],
    ['compose', '"" '.repeat(MAX_COMPOSE_BYTES / 3), /more than 262144 words, marks and/],
    // The parser finds an error in each, and one is told.
    ['compose', `a: 1\nb: ${'"" '.repeat(50_000)}`, /: line 2: .*; correct it, or give a file of/],
    ['openapi', `{"a": ${'['.repeat(50_000)}${']'.repeat(50_000)}}`, /200 levels deep; give/],
    [
      'compose',
      `a: &a 1\nb: [${'*a, '.repeat(MAX_YAML_ALIASES + 1)}]`,
      /more than 1000 aliases; write out/,
    ],
    [
      'compose',
      `a: &a [1, 1]\n${many(9, (nth) => {
        const [before, name] = 'abcdefghij'.slice(nth);
        return `${name}: &${name} [${`*${before}, `.repeat(9)}]`;
      }).join('\n')}`,
      /its aliases stand for too much; write out/,
    ],
    ['compose', 'a: 1\n---\nb: 2\n', /several documents; give each by itself/],
    ['compose', 'a: 1\nb:\n  x: 1\n  x: 2\n', /line 4: the key "x" is already in this mapping/],
  ] as const) {
    const { status, stdout, stderr } = await importing(from, text);
    assert.match(stderr, message);
    assert.deepEqual([status, stdout, stderr.split('\n').length], [2, '', 2]);
  }
});

test('brackets and dashes of texts, and lists one after another, are no depth', async () => {
  const lines = many(MAX_IMPORT_DEPTH + 1, () => '  [\n  {\n  - - "[["\n').join('');
  const lists = many(MAX_IMPORT_DEPTH + 1, () => '- {a: [[], "[[", {}]}\n').join('');
  const text = `x-text: |\n${lines}x-quoted: "${'['.repeat(300)}"\nx-plain: a${'['.repeat(300)}\n# ${'['.repeat(300)}\nx-lists:\n${lists}services: { a: { ports: ["80:80"] } }\n`;
  const { status, stdout, stderr } = await importing('compose', text);
  assert.equal(status, 0, stderr);
  assert.equal(JSON.parse(stdout).length, 1);
});

test('as many endpoints as the limit are imported, of one name too', async () => {
  const half = MAX_IMPORTED_RECORDS / 2;
  const text = services([` a: { ports: ["1-${half}:1-${half}", "1-${half}:1-${half}"] }`]);
  const { status, stdout } = await importing('compose', text);
  assert.equal(status, 0);
  const ids: string[] = JSON.parse(stdout).map(({ id }: { id: string }) => id);
  assert.equal(new Set(ids).size, MAX_IMPORTED_RECORDS);
  const same = many(5_000, () => '- url: https://a.example/').join('\n');
  const api = await importing('openapi', `info: { title: A }\nservers:\n${same}\n`);
  assert.equal(JSON.parse(api.stdout).at(-1).id, 'a-a-example-5000');
});

test('what a draft says of variables is short, however many there are', async () => {
  const variables = '$A'.repeat(200_000);
  const { status, stdout } = await importing(
    'compose',
    services([` a: { ports: ["${variables}:80"] }`]),
  );
  assert.equal(status, 0);
  assert.ok(stdout.length < 1_000, `${stdout.length} characters`);
});

test('what Compose takes from elsewhere is told', async () => {
  const { stderr } = await importing(
    'compose',
    'include: [other.yaml]\nservices:\n a: { extends: { service: b }, ports: "80:80" }\n c: { ports: ["80:80:80"] }\n',
  );
  assert.match(stderr, /include: import those files too/);
  assert.match(stderr, /a: it extends another service/);
  assert.match(stderr, /a: its ports are no list/);
  assert.match(stderr, /c: the port "80:80:80" is not published, or not known/);
});

test('drafts and what is told of them have no credentials', async () => {
  for (const [from, text] of [
    [
      'compose',
      'services: { a: { image: "https://u:hunter2@r/x", ports: ["1:1", "https://u:hunter2@h"] } }',
    ],
    [
      'nginx',
      'server { listen 80; location / { proxy_pass http://u:hunter2@up/?token=hunter2; } }',
    ],
    [
      'caddy',
      'a.example {\n reverse_proxy http://u:hunter2@up\n}\nhttps://u:hunter2@b.example {\n}\n',
    ],
    [
      'openapi',
      'info: { title: "https://u:hunter2@t", summary: "https://u:hunter2@s" }\nservers:\n - url: https://u:hunter2@a.example/?x=1&api_key=hunter2\n - url: /x?token=hunter2\n',
    ],
  ] as const) {
    const { status, stdout, stderr } = await importing(from, text);
    assert.equal(status, 0);
    assert.equal(JSON.parse(stdout).length, 1);
    assert.doesNotMatch(stdout + stderr, /hunter2/);
    assert.match(stderr, /1 draft printed without the credentials in <stdin>/);
  }
});
