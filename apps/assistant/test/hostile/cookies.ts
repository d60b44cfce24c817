import assert from 'node:assert/strict';
import fc from 'fast-check';
import { Browser } from '../helpers/assistant.ts';
import type { HostileAssistant } from './hostile-assistant.ts';
import { headers, headerValue, id, inAddress, MARK, marked } from './text.ts';

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
