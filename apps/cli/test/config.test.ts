import assert from 'node:assert/strict';
import { test } from 'node:test';
import { ConfigError, loadConfig } from '@oselya/kit';
import { clientConfig } from '../src/config.ts';

const read = (env: Record<string, string>) => loadConfig(clientConfig, env);

test('addresses and keys of a collector are taken as they are', () => {
  for (const url of [
    'http://127.0.0.1:9001',
    'https://oselya.example/collector/',
    'http://[::1]',
  ]) {
    assert.equal(read({ COLLECTOR_URL: url }).COLLECTOR_URL, url);
  }
  const key = 'oselya_00ff_AZaz09-_';
  assert.equal(read({ COLLECTOR_API_KEY: key }).COLLECTOR_API_KEY, key);
});

for (const [variable, value] of [
  ['COLLECTOR_URL', 'oselya.example'],
  ['COLLECTOR_URL', 'ftp://oselya.example'],
  ['COLLECTOR_URL', 'http://name:word@oselya.example'],
  ['COLLECTOR_URL', 'http://oselya.example?x=1'],
  ['COLLECTOR_URL', 'http://oselya.example:port'],
  ['COLLECTOR_API_KEY', 'two words'],
  ['COLLECTOR_API_KEY', 'ключ'],
  ['COLLECTOR_PORT', '0'],
] as const) {
  test(`${variable}=${value} is refused by name, not shown`, () => {
    assert.throws(
      () => read({ [variable]: value }),
      (error) => {
        assert.ok(error instanceof ConfigError);
        assert.deepEqual(error.variables, [variable]);
        assert.ok(value === '0' || !error.message.includes(value));
        return true;
      },
    );
  });
}
