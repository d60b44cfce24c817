import assert from 'node:assert/strict';
import { test } from 'node:test';
import { readSettings } from '../../src/dev/settings.ts';

const webhookUrl = (env: Record<string, string>) => readSettings(env).webhookUrl;

test('webhooks go to the address that the assistant listens on, whatever its public one is', () => {
  assert.equal(webhookUrl({}), 'http://127.0.0.1:8000/webhooks/idp');
  const proxied = { ASSISTANT_PORT: '9000', BASE_URL: 'https://oselya.example' };
  assert.equal(webhookUrl(proxied), 'http://127.0.0.1:9000/webhooks/idp');
});

for (const [host, reached] of [
  ['0.0.0.0', '127.0.0.1'],
  ['::', '[::1]'],
  ['::1', '[::1]'],
  ['localhost', 'localhost'],
  ['192.0.2.7', '192.0.2.7'],
] as const) {
  test(`an assistant on ${host} is told at ${reached}`, () => {
    assert.equal(webhookUrl({ ASSISTANT_HOST: host }), `http://${reached}:8000/webhooks/idp`);
  });
}

function lifetimes(env: Record<string, string>) {
  const { config } = readSettings(env);
  return [config.DEV_IDP_ACCESS_TOKEN_SECONDS, config.DEV_IDP_REFRESH_TOKEN_SECONDS];
}

test('tokens last five minutes and sign-ins thirty days unless told otherwise', () => {
  assert.deepEqual(lifetimes({}), [300, 30 * 24 * 60 * 60]);
  const short = { DEV_IDP_ACCESS_TOKEN_SECONDS: '1', DEV_IDP_REFRESH_TOKEN_SECONDS: '60' };
  assert.deepEqual(lifetimes(short), [1, 60]);
});

test('variables of another identity provider are named when they are ignored', () => {
  assert.deepEqual(readSettings({ IDP_CLIENT_ID: ' ', IDP_DISCOVERY: 'true' }).ignored, []);
  const env = { IDP_BASE_URL: 'https://id.example', IDP_CLIENT_SECRET: 'x', IDP_TIMEOUT_MS: '900' };
  assert.deepEqual(readSettings(env).ignored, ['IDP_BASE_URL', 'IDP_CLIENT_SECRET']);
});
