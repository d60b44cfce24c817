import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { test } from 'node:test';
import { ConfigError } from '@oselya/kit';
import fc from 'fast-check';
import { readConfig, findUnsafeSettings } from '../src/config.ts';

const KEY = Buffer.alloc(32, 7).toString('base64url');
const readValidConfig = (env: Record<string, string> = {}) =>
  readConfig({ SVC_AUTH_ENCRYPTION_KEY: KEY, ...env });

test('The defaults match the specification and the contract', () => {
  const defaults = {
    ANSWER_MAX_TOKENS: 4000,
    BASE_URL: 'http://127.0.0.1:8000',
    IDP_CLIENT_AUTH: 'basic',
    IDP_REDIRECT_URI: 'http://127.0.0.1:8000/auth/callback',
    IDP_ADMIN_ROLE_SLUG: 'svc_admin',
    IDP_SCOPES: 'openid email profile roles permissions',
    IDP_ROLES_CLAIM: '',
    IDP_PERMISSIONS_CLAIM: '',
    IDP_USER_MAX_AGE_SECONDS: 0,
    IDP_WEBHOOK_SECRET: '',
    IDP_WEBHOOK_SECRETS_OLD: [],
    SVC_AUTH_ENCRYPTION_KEYS_OLD: [],
    SVC_AUTH_COOKIE_NAME: 'svc_auth_session',
    SVC_AUTH_COOKIE_SECURE: false,
    SVC_AUTH_COOKIE_SAMESITE: 'lax',
    SVC_AUTH_COOKIE_MAX_AGE_DAYS: 30,
    TRUSTED_PROXIES: [],
  };
  const config = readValidConfig();
  assert.deepEqual(config, { ...config, ...defaults });
});

test('The redirect URI follows BASE_URL, and URLs lose their final slash', () => {
  const config = readValidConfig({
    BASE_URL: 'https://oselya.example/',
    IDP_BASE_URL: 'https://id.example/a/',
  });
  assert.equal(config.BASE_URL, 'https://oselya.example');
  assert.equal(config.IDP_REDIRECT_URI, 'https://oselya.example/auth/callback');
  assert.equal(config.IDP_BASE_URL, 'https://id.example/a');
  const callbackUrl = 'https://proxy.example/assistant/auth/callback';
  assert.equal(readValidConfig({ IDP_REDIRECT_URI: callbackUrl }).IDP_REDIRECT_URI, callbackUrl);
});

/** Fails unless an environment is rejected with an error about one variable. */
function assertRejected(env: Record<string, string>, variable: string, message = /./): void {
  assert.throws(
    () => readValidConfig(env),
    (error) => {
      assert.ok(error instanceof ConfigError);
      assert.deepEqual([...error.problems.keys()], [variable]);
      assert.match(error.message, message);
      return true;
    },
  );
}

test('Every key of 32 bytes is accepted, padded or not', () => {
  fc.assert(
    fc.property(fc.uint8Array({ minLength: 32, maxLength: 32 }), (bytes) => {
      const key = Buffer.from(bytes).toString('base64url');
      assert.equal(readValidConfig({ SVC_AUTH_ENCRYPTION_KEY: key }).SVC_AUTH_ENCRYPTION_KEY, key);
      readValidConfig({ SVC_AUTH_ENCRYPTION_KEY: `${key}=` });
    }),
  );
  for (const key of [
    randomBytes(31).toString('base64url'),
    randomBytes(33).toString('base64url'),
    Buffer.alloc(32, 0xff).toString('base64'),
    randomBytes(32).toString('hex'),
    `${KEY.slice(0, 42)}d`,
    `${KEY}==`,
    `${KEY.slice(0, 20)} ${KEY.slice(21)}`,
  ]) {
    for (const variable of ['SVC_AUTH_ENCRYPTION_KEY', 'SVC_AUTH_ENCRYPTION_KEYS_OLD']) {
      assertRejected({ [variable]: key }, variable, /value error.*oselya keygen/s);
      assert.throws(
        () => readValidConfig({ [variable]: key }),
        (error) => !String(error).includes(key),
      );
    }
  }
  assert.throws(
    () => readConfig({}),
    /SVC_AUTH_ENCRYPTION_KEY is not set: it must be 32 bytes as url-safe base64/,
  );
});

test('Invalid values are rejected', () => {
  for (const [variable, value] of [
    ['BASE_URL', 'https://oselya.example/path'],
    ['IDP_BASE_URL', 'ftp://id.example'],
    ['IDP_BASE_URL', 'https://id.example?x=1'],
    ['IDP_REDIRECT_URI', 'https://Oselya.example/auth/callback'],
    ['IDP_REDIRECT_URI', 'https://oselya.example/auth/callback#x'],
    ['IDP_TOKEN_PATH', 'https://id.example/token'],
    ['IDP_TIMEOUT_MS', '0'],
    ['IDP_SCOPES', 'openid "email"'],
    ['IDP_END_SESSION', 'true'],
    ['METRICS_TOKEN', 'too-short'],
    ['IDP_CLIENT_AUTH', 'none'],
    ['SVC_AUTH_COOKIE_NAME', 'a cookie'],
    ['SVC_AUTH_COOKIE_NAME', '__Host-session'],
    ['SVC_AUTH_COOKIE_SAMESITE', 'sometimes'],
    ['SVC_AUTH_COOKIE_SAMESITE', 'None'],
    ['SVC_AUTH_COOKIE_MAX_AGE_DAYS', '0'],
    ['SVC_AUTH_COOKIE_SECURE', 'maybe'],
    ['ANDROID_APP_PACKAGE', 'app;S.browser_fallback_url=https://evil.test'],
  ] as const) {
    assertRejected({ [variable]: value }, variable);
  }
});

test('Variables that contradict each other are rejected, with all bad values in one error', () => {
  assertRejected({ IDP_DISCOVERY: 'true', IDP_SCOPES: 'email openid2' }, 'IDP_SCOPES');
  assert.equal(readValidConfig({ IDP_SCOPES: 'email' }).IDP_SCOPES, 'email');
  assertRejected({ IDP_WEBHOOK_SECRETS_OLD: 'old' }, 'IDP_WEBHOOK_SECRET');
  const configWithOldSecrets = readValidConfig({
    IDP_WEBHOOK_SECRET: 'new',
    IDP_WEBHOOK_SECRETS_OLD: 'old, older',
  });
  assert.deepEqual(configWithOldSecrets.IDP_WEBHOOK_SECRETS_OLD, ['old', 'older']);
  const invalidCookieEnv = { SVC_AUTH_COOKIE_SECURE: 'maybe', SVC_AUTH_COOKIE_SAMESITE: 'none' };
  assertRejected(invalidCookieEnv, 'SVC_AUTH_COOKIE_SECURE');
  assert.throws(
    () => readValidConfig({ IDP_TIMEOUT_MS: '0', SVC_AUTH_COOKIE_SAMESITE: 'none' }),
    (error) =>
      error instanceof ConfigError &&
      [...error.problems.keys()].join() === 'IDP_TIMEOUT_MS,SVC_AUTH_COOKIE_SAMESITE',
  );
});

test('Values of choices are case-insensitive', () => {
  const env = { SVC_AUTH_COOKIE_SAMESITE: 'NONE', SVC_AUTH_COOKIE_SECURE: 'True' };
  assert.partialDeepStrictEqual(readValidConfig({ ...env, IDP_CLIENT_AUTH: 'POST' }), {
    SVC_AUTH_COOKIE_SAMESITE: 'none',
    SVC_AUTH_COOKIE_SECURE: true,
    IDP_CLIENT_AUTH: 'post',
  });
});

test('The maximum length of an answer is 40 % of the window', () => {
  const readAnswerTokens = (contextTokens: string, answerTokens = '') =>
    readValidConfig({ MODEL_CONTEXT_TOKENS: contextTokens, ANSWER_MAX_TOKENS: answerTokens })
      .ANSWER_MAX_TOKENS;
  assert.deepEqual(
    ['2048', '8192', '10000', '32768'].map((tokens) => readAnswerTokens(tokens)),
    [819, 3276, 4000, 4000],
  );
  assert.equal(readAnswerTokens('8192', '3276'), 3276);
  const env = { MODEL_CONTEXT_TOKENS: '8192', ANSWER_MAX_TOKENS: '3277' };
  assertRejected(env, 'ANSWER_MAX_TOKENS', /40 % of MODEL_CONTEXT_TOKENS: lower it, .* or raise/);
});

test('Unsafe settings have warnings', () => {
  const safeEnv = { IDP_CLIENT_ID: 'oselya', IDP_BASE_URL: 'https://id.example' };
  const httpsEnv = { BASE_URL: 'https://oselya.example' };
  const openaiEnv = {
    MODEL_MODE: 'openai',
    MODEL_BASE_URL: 'http://127.0.0.1:11434/v1',
    MODEL_CHAT: 'chat',
  };
  const cases: [env: Record<string, string>, warning: RegExp][] = [
    [{}, /^$/],
    [{ IDP_CLIENT_ID: '' }, /^IDP_CLIENT_ID/],
    [{ IDP_BASE_URL: 'http://127.0.0.2' }, /^$/],
    [{ IDP_BASE_URL: 'http://id.example' }, /unencrypted/],
    [httpsEnv, /COOKIE_SECURE=true.+MODEL_MODE is mock/],
    [{ ...httpsEnv, ...openaiEnv, SVC_AUTH_COOKIE_SECURE: 'true' }, /^$/],
    [
      { IDP_REDIRECT_URI: 'http://localhost:8000/auth/callback' },
      /IDP_REDIRECT_URI has a different origin/,
    ],
    [{ IDP_REDIRECT_URI: 'http://127.0.0.1:8000/sign-in/auth/callback' }, /^$/],
  ];
  for (const [env, warning] of cases) {
    assert.match(findUnsafeSettings(readValidConfig({ ...safeEnv, ...env })).join(), warning);
  }
});
