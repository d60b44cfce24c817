import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { test } from 'node:test';
import { ConfigError } from '@oselya/kit';
import fc from 'fast-check';
import { readConfig, unsafeSettings } from '../src/config.ts';

const KEY = Buffer.alloc(32, 7).toString('base64url');
const read = (env: Record<string, string> = {}) =>
  readConfig({ SVC_AUTH_ENCRYPTION_KEY: KEY, ...env });

test('the defaults are those of the specification and the contract', () => {
  const { SVC_AUTH_ENCRYPTION_KEY: _, ...config } = read();
  assert.deepEqual(config, {
    DATA_DIR: 'var',
    LOG_LEVEL: 'info',
    MODEL_MODE: 'mock',
    MODEL_API_KEY: '',
    MODEL_CHAT: '',
    MODEL_TIMEOUT_MS: 120_000,
    MODEL_CONTEXT_TOKENS: 32_768,
    ANSWER_MAX_TOKENS: 4000,
    ANSWER_MAX_SECONDS: 300,
    COLLECTOR_URL: 'http://127.0.0.1:8001',
    COLLECTOR_API_KEY: '',
    SAVED_SEARCH_POLL_SECONDS: 20,
    METRICS_TOKEN: '',
    ASSISTANT_HOST: '127.0.0.1',
    ASSISTANT_PORT: 8000,
    BASE_URL: 'http://127.0.0.1:8000',
    IDP_BASE_URL: 'http://127.0.0.1:8002',
    IDP_CLIENT_ID: '',
    IDP_CLIENT_SECRET: '',
    IDP_CLIENT_AUTH: 'basic',
    IDP_REDIRECT_URI: 'http://127.0.0.1:8000/auth/callback',
    IDP_ADMIN_ROLE_SLUG: 'svc_admin',
    IDP_DISCOVERY: false,
    IDP_SCOPES: 'openid email profile roles permissions',
    IDP_AUTHORIZE_PATH: '/oauth/authorize',
    IDP_TOKEN_PATH: '/oauth/token',
    IDP_USERINFO_PATH: '/oauth/userinfo',
    IDP_REVOKE_PATH: '/oauth/revoke',
    IDP_END_SESSION: false,
    IDP_ROLES_CLAIM: '',
    IDP_PERMISSIONS_CLAIM: '',
    IDP_TIMEOUT_MS: 5000,
    IDP_USER_MAX_AGE_SECONDS: 0,
    IDP_WEBHOOK_SECRET: '',
    IDP_WEBHOOK_SECRETS_OLD: [],
    IDP_WEBHOOK_STANDARD_ONLY: false,
    IDP_WEBHOOK_SIGNATURE_HEADER: 'x-webhook-signature',
    SVC_AUTH_ENCRYPTION_KEYS_OLD: [],
    SVC_AUTH_COOKIE_NAME: 'svc_auth_session',
    SVC_AUTH_COOKIE_SECURE: false,
    SVC_AUTH_COOKIE_SAMESITE: 'lax',
    SVC_AUTH_COOKIE_MAX_AGE_DAYS: 30,
    SVC_AUTH_IDLE_DAYS: 0,
    ANDROID_APP_PACKAGE: 'app.oselya.android',
    LOGIN_PER_MINUTE: 600,
    SOCKETS_PER_USER: 20,
    SOCKETS_PER_ADDRESS: 200,
    AUDIT_RETENTION_DAYS: 365,
    TRUSTED_PROXIES: [],
  });
});

test('the redirect address follows the base address, and addresses lose their final slash', () => {
  const config = read({
    BASE_URL: 'https://oselya.example/',
    IDP_BASE_URL: 'https://id.example/a/',
  });
  assert.equal(config.BASE_URL, 'https://oselya.example');
  assert.equal(config.IDP_REDIRECT_URI, 'https://oselya.example/auth/callback');
  assert.equal(config.IDP_BASE_URL, 'https://id.example/a');
  const own = 'https://proxy.example/assistant/auth/callback';
  assert.equal(read({ IDP_REDIRECT_URI: own }).IDP_REDIRECT_URI, own);
});

test('every key of 32 bytes is accepted, padded or not', () => {
  fc.assert(
    fc.property(fc.uint8Array({ minLength: 32, maxLength: 32 }), (bytes) => {
      const key = Buffer.from(bytes).toString('base64url');
      assert.equal(read({ SVC_AUTH_ENCRYPTION_KEY: key }).SVC_AUTH_ENCRYPTION_KEY, key);
      read({ SVC_AUTH_ENCRYPTION_KEY: `${key}=` });
    }),
  );
});

const rejectedKeys = {
  empty: '',
  'too short': randomBytes(31).toString('base64url'),
  'too long': randomBytes(33).toString('base64url'),
  'in the other alphabet': Buffer.alloc(32, 0xff).toString('base64'),
  hexadecimal: randomBytes(32).toString('hex'),
  'with bits left over': `${KEY.slice(0, 42)}d`,
  'padded twice': `${KEY}==`,
  'with a space': `${KEY.slice(0, 20)} ${KEY.slice(21)}`,
};

for (const [name, key] of Object.entries(rejectedKeys)) {
  test(`a key that is ${name} stops the start with a value error`, () => {
    for (const variable of ['SVC_AUTH_ENCRYPTION_KEY', 'SVC_AUTH_ENCRYPTION_KEYS_OLD']) {
      if (key === '' && variable.endsWith('OLD')) continue;
      assert.throws(
        () => read({ [variable]: key }),
        (error) => {
          assert.ok(error instanceof ConfigError);
          assert.deepEqual(error.variables, [variable]);
          assert.match(error.message, /value error/);
          assert.match(error.message, /oselya keygen/);
          assert.ok(key === '' || !error.message.includes(key));
          return true;
        },
      );
    }
  });
}

test('a key that is not set is told as that', () => {
  assert.throws(
    () => readConfig({}),
    /SVC_AUTH_ENCRYPTION_KEY is not set: it must be 32 bytes as url-safe base64/,
  );
});

for (const [variable, value] of [
  ['BASE_URL', 'https://oselya.example/path'],
  ['BASE_URL', 'oselya.example'],
  ['IDP_BASE_URL', 'ftp://id.example'],
  ['IDP_BASE_URL', 'https://id.example?x=1'],
  ['IDP_REDIRECT_URI', 'https://Oselya.example/auth/callback'],
  ['IDP_REDIRECT_URI', 'https://oselya.example/auth/callback#x'],
  ['IDP_TOKEN_PATH', 'https://id.example/token'],
  ['IDP_TIMEOUT_MS', '0'],
  ['IDP_SCOPES', 'openid  email'],
  ['IDP_SCOPES', 'openid "email"'],
  ['IDP_END_SESSION', 'true'],
  ['METRICS_TOKEN', 'fifteen letters'],
  ['METRICS_TOKEN', 'too-short'],
  ['IDP_CLIENT_AUTH', 'none'],
  ['SVC_AUTH_COOKIE_NAME', 'a cookie'],
  ['SVC_AUTH_COOKIE_NAME', '__Host-session'],
  ['SVC_AUTH_COOKIE_SAMESITE', 'sometimes'],
  ['SVC_AUTH_COOKIE_SAMESITE', 'none'],
  ['SVC_AUTH_COOKIE_MAX_AGE_DAYS', '0'],
  ['SVC_AUTH_COOKIE_SECURE', 'maybe'],
  ['ANDROID_APP_PACKAGE', 'app;S.browser_fallback_url=https://evil.test'],
] as const) {
  test(`${variable}=${value} is refused by name`, () => {
    assert.throws(
      () => read({ [variable]: value }),
      (error) => error instanceof ConfigError && error.variables.includes(variable),
    );
  });
}

for (const [variable, value, meaning] of [
  ['SVC_AUTH_COOKIE_SAMESITE', 'Lax', 'lax'],
  ['SVC_AUTH_COOKIE_SAMESITE', 'Strict', 'strict'],
  ['SVC_AUTH_COOKIE_SAMESITE', 'NONE', 'none'],
  ['SVC_AUTH_COOKIE_SECURE', 'True', true],
  ['SVC_AUTH_COOKIE_SECURE', 'FALSE', false],
  ['IDP_DISCOVERY', 'TRUE', true],
  ['IDP_CLIENT_AUTH', 'POST', 'post'],
] as const) {
  test(`${variable}=${value} means ${meaning}`, () => {
    const config = read({ SVC_AUTH_COOKIE_SECURE: 'true', [variable]: value });
    assert.equal(config[variable], meaning);
  });
}

test('discovery needs the scope openid', () => {
  assert.throws(
    () => read({ IDP_DISCOVERY: 'true', IDP_SCOPES: 'email openid2' }),
    (error) => error instanceof ConfigError && error.variables.includes('IDP_SCOPES'),
  );
  assert.equal(read({ IDP_SCOPES: 'email' }).IDP_SCOPES, 'email');
});

test('an old secret of webhooks needs a current one', () => {
  assert.throws(
    () => read({ IDP_WEBHOOK_SECRETS_OLD: 'old' }),
    (error) => error instanceof ConfigError && error.variables.includes('IDP_WEBHOOK_SECRET'),
  );
  const both = read({ IDP_WEBHOOK_SECRET: 'new', IDP_WEBHOOK_SECRETS_OLD: 'old, older' });
  assert.deepEqual(both.IDP_WEBHOOK_SECRETS_OLD, ['old', 'older']);
});

test('a capitalised None is a contradiction without Secure as well', () => {
  assert.throws(
    () => read({ SVC_AUTH_COOKIE_SAMESITE: 'None', SVC_AUTH_COOKIE_SECURE: 'False' }),
    (error) => {
      assert.ok(error instanceof ConfigError);
      assert.deepEqual(error.variables, ['SVC_AUTH_COOKIE_SAMESITE']);
      return true;
    },
  );
});

/** How much an answer may be in a window, where that is set or not. */
const answerTokens = (window: string, most = '') =>
  read({ MODEL_CONTEXT_TOKENS: window, ANSWER_MAX_TOKENS: most }).ANSWER_MAX_TOKENS;

test('how much an answer may be follows the window, and more than fits into that is refused', () => {
  assert.deepEqual(
    ['2048', '8192', '10000', '32768'].map((tokens) => answerTokens(tokens)),
    [819, 3276, 4000, 4000],
  );
  assert.equal(answerTokens('8192', '3276'), 3276);
  assert.throws(
    () => answerTokens('8192', '3277'),
    (error) => {
      assert.ok(error instanceof ConfigError);
      assert.deepEqual(error.variables, ['ANSWER_MAX_TOKENS']);
      assert.match(error.message, /40 % of MODEL_CONTEXT_TOKENS: lower it, .* or raise/);
      assert.doesNotMatch(error.message, /3277/);
      return true;
    },
  );
  assert.throws(() => read({ ANSWER_MAX_TOKENS: '0' }), /ANSWER_MAX_TOKENS must be a whole number/);
});

test('bad values and contradictions are one error', () => {
  assert.throws(
    () =>
      read({
        IDP_TIMEOUT_MS: '0',
        SVC_AUTH_COOKIE_SAMESITE: 'none',
        SVC_AUTH_COOKIE_NAME: '__Host-session',
      }),
    (error) => {
      assert.ok(error instanceof ConfigError);
      assert.deepEqual(error.variables, [
        'IDP_TIMEOUT_MS',
        'SVC_AUTH_COOKIE_SAMESITE',
        'SVC_AUTH_COOKIE_NAME',
      ]);
      return true;
    },
  );
});

test('a cookie is not called a contradiction while SVC_AUTH_COOKIE_SECURE itself is bad', () => {
  assert.throws(
    () => read({ SVC_AUTH_COOKIE_SECURE: 'maybe', SVC_AUTH_COOKIE_SAMESITE: 'none' }),
    (error) => {
      assert.ok(error instanceof ConfigError);
      assert.deepEqual(error.variables, ['SVC_AUTH_COOKIE_SECURE']);
      return true;
    },
  );
});

test('unsafe settings announce themselves', () => {
  const safe = { IDP_CLIENT_ID: 'oselya', IDP_BASE_URL: 'https://id.example' };
  assert.deepEqual(unsafeSettings(read(safe)), []);
  assert.match(String(unsafeSettings(read())), /IDP_CLIENT_ID/);
  assert.deepEqual(unsafeSettings(read({ ...safe, IDP_BASE_URL: 'http://127.0.0.2' })), []);
  assert.match(
    String(unsafeSettings(read({ ...safe, IDP_BASE_URL: 'http://id.example' }))),
    /unencrypted/,
  );
  assert.match(
    String(unsafeSettings(read({ ...safe, BASE_URL: 'https://oselya.example' }))),
    /COOKIE_SECURE=true.+MODEL_MODE is mock/,
  );
  const elsewhere = { ...safe, IDP_REDIRECT_URI: 'http://localhost:8000/auth/callback' };
  assert.match(String(unsafeSettings(read(elsewhere))), /IDP_REDIRECT_URI has another origin/);
  const beside = { ...safe, IDP_REDIRECT_URI: 'http://127.0.0.1:8000/sign-in/auth/callback' };
  assert.deepEqual(unsafeSettings(read(beside)), []);
  const complete = {
    ...safe,
    BASE_URL: 'https://oselya.example',
    SVC_AUTH_COOKIE_SECURE: 'true',
    MODEL_MODE: 'openai',
    MODEL_BASE_URL: 'http://127.0.0.1:11434/v1',
    MODEL_CHAT: 'chat',
  };
  assert.deepEqual(unsafeSettings(read(complete)), []);
});
