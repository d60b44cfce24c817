import assert from 'node:assert/strict';
import { test } from 'node:test';
import { importing } from '../support/importing.ts';

const SITE = `reverse_proxy /api/* api:4000 \\
	api:4001 {
	lb_policy first
}
basic_auth {
	alice "a b"
}
respond <<TEXT
	}
	TEXT 200
tls internal
`;

const SITES = `{
	email ops@example.test
}
app.example.test, {$OTHER::8443} {
${SITE}}
`;

/** What Caddy takes for the same file. */
const SAME: [name: string, write: (source: string) => string][] = [
  ['CR LF', (source) => source.replaceAll('\n', '\r\n')],
  ['addresses on lines of their own', (source) => source.replace('test, ', 'test, # one\n\t')],
  ['a brace on a line of its own', (source) => source.replace('8443} {', '8443}\n{')],
  ['no braces', (source) => source.replace('8443} {', '8443}').replace(/\}\n$/, '')],
  ['quotes', (source) => source.replace('app.example.test,', '"app.example.test",')],
  ['no end of the last line', (source) => source.replace(/\n$/, '')],
];

for (const [name, write] of SAME) {
  test(`a Caddyfile means the same with ${name}`, async () => {
    const written = write(SITES);
    assert.notEqual(written, SITES);
    const drafts = JSON.parse((await importing('caddy', SITES)).stdout);
    assert.deepEqual(
      drafts.map(({ name: title }: { name: string }) => title),
      ['app.example.test', 'Caddy on port 8443'],
    );
    const { status, stdout, stderr } = await importing('caddy', written);
    assert.deepEqual([status, JSON.parse(stdout), stderr], [0, drafts, '']);
  });
}
