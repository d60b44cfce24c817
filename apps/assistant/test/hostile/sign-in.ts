import assert from 'node:assert/strict';
import fc from 'fast-check';
import { Browser } from '../helpers/assistant.ts';
import type { HostileAssistant } from './hostile-assistant.ts';
import {
  headers,
  headerValue,
  id,
  inAddress,
  luringQuery,
  marked,
  text,
  MARK,
} from './generators.ts';

const ANDROID = 'Mozilla/5.0 (Linux; Android 15) SvcAndroid/1.0';

/** Sign-ins with whatever stands in their addresses and headers. */
export function signInCases(assistant: HostileAssistant): void {
  const { app, db, provider, secrets, play, cases } = assistant;

  /** Begins a sign-in as it should be, and gives what ties it together. */
  async function begin(isAndroid: boolean) {
    const browser = new Browser(app, isAndroid ? { 'user-agent': ANDROID } : {});
    const callback = await browser.begin(provider);
    const state = new URLSearchParams(callback.split('?')[1]).get('state') ?? '';
    const login = await db
      .selectFrom('pending_logins')
      .select('code_verifier')
      .where('state', '=', state)
      .executeTakeFirstOrThrow();
    for (const secret of [state, login.code_verifier, ...browser.cookies.values()]) {
      secrets.add(secret);
    }
    return { browser, callback, state };
  }

  const sessions = async () => {
    const { count } = await db
      .selectFrom('user_auth_sessions')
      .select((eb) => eb.fn.countAll<number>().as('count'))
      .executeTakeFirstOrThrow();
    return count;
  };

  cases(
    'a login leads to the provider and back to its own callback, whatever it is asked with',
    900,
    fc.record({ query: luringQuery, headers, userAgent: headerValue }),
    async ({ query, headers: sent, userAgent }) => {
      const answer = await play({
        url: `/auth/login?${query}`,
        headers: { 'user-agent': userAgent, ...sent },
      });
      if (answer.statusCode !== 302) return assert.equal(answer.statusCode, 400);
      assert.ok(String(answer.headers.location).startsWith(`${provider.url}/oauth/authorize?`));
    },
  );

  const parameter = fc.tuple(
    fc.constantFrom('code', 'state', 'error', 'iss', 'error_description', 'session_state', 'scope'),
    inAddress(marked),
  );
  cases(
    'a callback that nobody began is 400, whatever stands in it',
    2000,
    fc.record({ parameters: fc.array(parameter, { maxLength: 6 }), query: luringQuery, headers }),
    async ({ parameters, query, headers: sent }) => {
      const own = parameters.map(([name, value]) => `${name}=${value}`);
      const answer = await play({
        url: `/auth/callback?${[...own, query].join('&')}`,
        headers: sent,
      });
      assert.equal(answer.statusCode, 400);
      assert.deepEqual(answer.cookies, []);
    },
  );

  cases(
    'a callback of a sign-in that was begun does nothing with a wrong code or in a wrong browser',
    350,
    fc.record({
      isAndroid: fc.boolean(),
      parameters: fc.array(fc.tuple(fc.constantFrom('code', 'error', 'iss'), inAddress(marked)), {
        maxLength: 3,
      }),
      query: luringQuery,
      browserId: fc.option(fc.oneof(id, headerValue)),
    }),
    async ({ isAndroid, parameters, query, browserId }) => {
      const { browser, state } = await begin(isAndroid);
      const before = await sessions();
      const own = parameters.map(([name, value]) => `${name}=${value}`);
      const cookie = browserId ?? browser.cookies.get('svc_auth_session_login') ?? '';
      const answer = await play({
        url: `/auth/callback?${[`state=${state}`, ...own, query].join('&')}`,
        headers: { cookie: `svc_auth_session_login=${cookie}` },
      });
      assert.equal(answer.statusCode, 400);
      assert.deepEqual(answer.cookies, []);
      assert.equal(await sessions(), before);
    },
  );

  cases(
    'a sign-in ends at home, whatever stands beside its code',
    250,
    fc.record({ isAndroid: fc.boolean(), query: luringQuery, headers, iss: inAddress(text) }),
    async ({ isAndroid, query, headers: sent, iss }) => {
      const { browser, callback } = await begin(isAndroid);
      const cookie = browser.cookies.get('svc_auth_session_login') ?? '';
      const answer = await play({
        url: `${callback}&iss=${iss}&${query}`,
        headers: { ...sent, cookie: `svc_auth_session_login=${cookie}` },
      });
      if (answer.statusCode !== 302) return assert.equal(answer.statusCode, 400);
      const location = String(answer.headers.location);
      const sid = isAndroid ? location.split('=')[1] : answer.cookies[0]?.value;
      assert.equal(location, isAndroid ? `/auth/mobile-done?sid=${sid}` : '/');
      assert.equal(answer.cookies.length, isAndroid ? 0 : 1);
      secrets.add(sid ?? '');
    },
  );

  cases(
    'the bridge page takes nothing but an id',
    900,
    fc.record({ sid: fc.oneof(inAddress(marked), id), query: luringQuery, headers }),
    async ({ sid, query, headers: sent }) => {
      const isId = /^[\w-]{43}$/.test(sid);
      // On this page alone it is shown, to whom it was sent.
      const answer = await play({ url: `/auth/mobile-done?sid=${sid}&${query}`, headers: sent });
      if (answer.statusCode !== 200) return assert.ok([400, 422].includes(answer.statusCode));
      assert.ok(isId);
      assert.equal(answer.body.split(sid).length, 3, 'in the link and its copy for no script');
      secrets.add(sid);
    },
  );
}

const NAMES = [
  'svc_auth_session',
  'svc_auth_session_login',
  'SVC_AUTH_SESSION',
  '__Host-svc_auth_session',
  '__proto__',
  'constructor',
  'other',
  '',
];

const value = fc.oneof(
  id,
  headerValue.map((one) => one + MARK),
  inAddress(marked).map((one) => one.replaceAll(/[^\t\x20-\x7e]/gu, '')),
  headerValue.map((one) => `"${one}${MARK}"`),
);

/** The header as it may be: many cookies, doubles, no names, no values, whatever separates them. */
const cookieHeader = fc
  .tuple(
    fc.array(fc.tuple(fc.constantFrom(...NAMES), fc.constantFrom('=', '', ' = ', '=='), value), {
      maxLength: 8,
    }),
    fc.constantFrom('; ', ';', ',', ' ', ';;;'),
  )
  .map(([cookies, separator]) => cookies.map((parts) => parts.join('')).join(separator));

/** Requests with whatever for cookies. */
export function cookieCases({ app, provider, secrets, play, cases, row }: HostileAssistant): void {
  cases(
    'cookies that are nobody’s sign nobody in',
    1600,
    fc.record({
      cookie: cookieHeader,
      path: fc.constantFrom('/', '/auth/me', '/sessions', '/admin/users', '/auth/sessions'),
      headers,
    }),
    async ({ cookie, path, headers: sent }) => {
      const answer = await play({ url: path, headers: { ...sent, cookie } });
      if (path !== '/') return assert.equal(answer.statusCode, 401);
      assert.equal(answer.statusCode, 200);
      assert.match(answer.body, /You are not signed in/);
    },
  );

  cases(
    'cookies that are nobody’s sign nobody out',
    500,
    fc.record({ cookie: cookieHeader, headers }),
    async ({ cookie, headers: sent }) => {
      const { statusCode } = await play({
        method: 'POST',
        url: '/auth/logout',
        headers: { ...sent, cookie },
      });
      assert.ok([200, 403].includes(statusCode), String(statusCode));
    },
  );

  let browser: Browser | undefined;
  cases(
    'hundreds of cookies beside a valid one change nothing',
    300,
    fc.record({
      count: fc.integer({ min: 0, max: 300 }),
      cookie: value.filter((one) => !/[;"]/.test(one)),
    }),
    async ({ count, cookie }) => {
      browser ??= await signIn();
      const others = Array.from({ length: count }, (_, index) => `other-${index}=${cookie}`);
      const own = `svc_auth_session=${browser.sid}`;
      const answer = await play({
        url: '/auth/me',
        headers: { cookie: [...others, own].join('; ') },
      });
      assert.equal(answer.statusCode, 200);
      assert.notEqual(await row(browser.sid), undefined);
    },
  );

  async function signIn(): Promise<Browser> {
    const one = new Browser(app);
    await one.signIn(provider);
    secrets.add(one.sid);
    return one;
  }
}
