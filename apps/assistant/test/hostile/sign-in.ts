import assert from 'node:assert/strict';
import fc from 'fast-check';
import { Browser } from '../helpers/assistant.ts';
import type { HostileAssistant } from './hostile-assistant.ts';
import { headers, headerValue, id, inAddress, luringQuery, marked, text } from './text.ts';

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
