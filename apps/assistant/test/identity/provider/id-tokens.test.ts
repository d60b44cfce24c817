import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { CustomFetch } from 'openid-client';
import { readConfig } from '../../../src/config.ts';
import { createIdTokenCheck } from '../../../src/identity/provider/id-tokens.ts';
import { unmeasured } from '../../../src/identity/provider/measure-request.ts';
import { ProviderError } from '../../../src/identity/provider/provider-error.ts';
import { createProvider } from '../../../src/identity/provider/provider.ts';
import { makeSigningKey } from '../../helpers/signing-key.ts';

const KEYS = 'https://id.example/keys';
const key = await makeSigningKey('k-1');
const token = await key.sign({ sub: 'u-1' });

/** What answers at addresses; it keeps count of what it is asked for. */
function answering(answers: Record<string, () => unknown>) {
  const asked: string[] = [];
  const transport: CustomFetch = async (url) => {
    asked.push(url);
    const answer = answers[url];
    if (answer === undefined) throw new ProviderError('refused', 'there is nothing');
    return Response.json(answer());
  };
  return { asked, transport };
}

const isUnavailable = (error: unknown) =>
  error instanceof ProviderError && error.kind === 'unavailable' && error.cause === undefined;

test('keys are asked for once by all who need them, and again after five minutes', async (context) => {
  context.mock.timers.enable({ apis: ['Date'], now: Date.parse('2026-11-21T08:00:00Z') });
  const published = [key.published];
  const { asked, transport } = answering({ [KEYS]: () => ({ keys: published }) });
  const check = createIdTokenCheck(new URL(KEYS), { transport, measure: unmeasured });
  await Promise.all([check.prepare(), check.prepare(), check.prepare()]);
  context.mock.timers.tick(299_999);
  await check.prepare();
  await check.verify(token);
  assert.equal(asked.length, 1);

  published.pop();
  context.mock.timers.tick(1);
  await check.prepare();
  assert.equal(asked.length, 2);
  await assert.rejects(check.verify(token), isUnavailable, 'a key that was taken back');
});

test('an ID token asks for keys that nobody prepared, and for those it does not find', async () => {
  const published = [key.published];
  const { asked, transport } = answering({ [KEYS]: () => ({ keys: published }) });
  const check = createIdTokenCheck(new URL(KEYS), { transport, measure: unmeasured });
  await check.verify(token);
  await check.verify(token);
  assert.equal(asked.length, 1);
  const newer = await makeSigningKey('k-2');
  await assert.rejects(
    newer.sign({}).then((jwt) => check.verify(jwt)),
    isUnavailable,
  );
  published.push(newer.published);
  await newer.sign({}).then((jwt) => check.verify(jwt));
  assert.equal(asked.length, 3);
});

test('keys that are refused are an outage, and are asked for again', async () => {
  const answers: Record<string, () => unknown> = {};
  const { asked, transport } = answering(answers);
  const check = createIdTokenCheck(new URL(KEYS), { transport, measure: unmeasured });
  await assert.rejects(check.prepare(), isUnavailable);
  await assert.rejects(check.verify(token), isUnavailable);
  answers[KEYS] = () => ({ keys: [key.published] });
  await check.prepare();
  await check.verify(token);
  assert.equal(asked.length, 3);
});

test('no ID token needs no keys, and without keys none is right', async () => {
  const { asked, transport } = answering({});
  await createIdTokenCheck(new URL(KEYS), { transport, measure: unmeasured }).verify(undefined);
  const keyless = createIdTokenCheck(undefined, { transport, measure: unmeasured });
  await keyless.prepare();
  await keyless.verify(undefined);
  await assert.rejects(keyless.verify(token), isUnavailable);
  assert.deepEqual(asked, []);
});

test('a provider on https is not asked for keys on http', async () => {
  const issuer = 'https://id.example';
  const metadata = {
    issuer,
    token_endpoint: `${issuer}/token`,
    jwks_uri: 'http://id.example/keys',
  };
  const now = Math.floor(Date.now() / 1000);
  const claims = { iss: issuer, aud: 'oselya', sub: 'u-1', iat: now, exp: now + 60 };
  const id_token = await key.sign(claims);
  const { asked, transport } = answering({
    [`${issuer}/.well-known/openid-configuration`]: () => metadata,
    [metadata.token_endpoint]: () => ({ access_token: 'a', token_type: 'bearer', id_token }),
    [metadata.jwks_uri]: () => ({ keys: [key.published] }),
    [KEYS]: () => ({ keys: [key.published] }),
  });
  const config = readConfig({
    IDP_BASE_URL: issuer,
    IDP_DISCOVERY: 'true',
    IDP_CLIENT_ID: 'oselya',
    SVC_AUTH_ENCRYPTION_KEY: Buffer.alloc(32, 7).toString('base64url'),
  });
  const refresh = () => createProvider(config, { transport }).refresh('refresh');
  await assert.rejects(refresh(), isUnavailable);
  assert.ok(!asked.includes(metadata.jwks_uri));
  metadata.jwks_uri = KEYS;
  assert.equal((await refresh()).accessToken, 'a');
});
