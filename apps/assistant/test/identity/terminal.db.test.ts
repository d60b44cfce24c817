import assert from 'node:assert/strict';
import { createHash, randomBytes } from 'node:crypto';
import { beforeEach, test } from 'node:test';
import { sql } from 'kysely';
import { sweepTerminalSignIns } from '../../src/identity/terminal.ts';
import { runSweep } from '../../src/upkeep.ts';
import { countBlocked } from '../faults/helpers.ts';
import { Browser, openAssistant } from '../helpers/assistant.ts';
import { until } from '../helpers/until.ts';

const { db, provider, lines, instance, signedIn } = await openAssistant();
const app = await instance();
const second = await instance();
const PORT = 54_321;
const TERMINAL = { 'user-agent': 'oselya-chat/0.1.0 (linux)' };

beforeEach(() => provider.reset());

const sessions = () => db.selectFrom('user_auth_sessions').selectAll().execute();
const random = () => randomBytes(32).toString('base64url');

/** What a terminal makes for one sign-in. */
function terminal(changes: Record<string, string> = {}) {
  const [verifier, state] = [random(), random()];
  const query = new URLSearchParams({
    port: String(PORT),
    state,
    code_challenge: createHash('sha256').update(verifier).digest('base64url'),
    code_challenge_method: 'S256',
    ...changes,
  });
  return { verifier, state, address: `/auth/terminal?${query.toString()}` };
}

/** Takes a browser through the provider, and gives the address of the page that asks. */
async function comeBack(browser: Browser, address: string): Promise<string> {
  const begun = await browser.get(address);
  assert.equal(begun.statusCode, 302, begun.body);
  const back = new URL(await provider.authorize(String(begun.headers.location)));
  const callback = await browser.get(back.pathname + back.search, { app: second });
  assert.equal(callback.statusCode, 302, callback.body);
  return String(callback.headers.location);
}

const requestOf = (page: string) => new URL(page, 'http://assistant.test').search;

/** Agrees, and gives where the browser is sent. */
async function agree(browser: Browser, page: string): Promise<URL> {
  const answer = await browser.post(`/auth/terminal/confirm${requestOf(page)}`);
  assert.equal(answer.statusCode, 303, answer.body);
  return new URL(String(answer.headers.location));
}

const redeem = (code: string | null, verifier: string, on = app) =>
  on.inject({
    method: 'POST',
    url: '/auth/terminal/token',
    headers: TERMINAL,
    payload: { code, code_verifier: verifier },
  });

async function codeOf(browser: Browser) {
  const { verifier, address } = terminal();
  const back = await agree(browser, await comeBack(browser, address));
  return { verifier, code: back.searchParams.get('code') };
}

test('a terminal gets a session of its own, which is listed and ended as every other', async () => {
  const browser = await signedIn(app);
  const before = await sessions();
  const { verifier, state, address } = terminal();
  const page = await comeBack(browser, address);
  const asked = await browser.get(page);
  assert.equal(asked.statusCode, 200);
  assert.equal(asked.headers['cache-control'], 'no-store');
  assert.match(
    String(asked.headers['content-security-policy']),
    /form-action 'self' http:\/\/127\.0\.0\.1:54321(;|$)/,
  );
  const challenge = createHash('sha256').update(verifier).digest('base64url');
  for (const shown of ['Олена, olena@example.test', challenge.slice(0, 8), '127.0.0.1:54321']) {
    assert.ok(asked.body.includes(shown), shown);
  }

  const back = await agree(browser, page);
  assert.equal(back.origin, `http://127.0.0.1:${PORT}`);
  assert.equal(back.searchParams.get('state'), state);
  const answer = await redeem(back.searchParams.get('code'), verifier, second);
  assert.equal(answer.statusCode, 200, answer.body);
  assert.equal(answer.headers['cache-control'], 'no-store');
  const { session_id: id, cookie_name: name } = answer.json();
  assert.equal(name, 'svc_auth_session');
  const cookies = { [name]: id };
  const me = await app.inject({ url: '/auth/me', cookies });
  assert.equal(me.json().email, 'olena@example.test');

  assert.notEqual(id, browser.sid);
  assert.equal((await browser.get('/auth/me')).statusCode, 200, 'the browser stays signed in');
  assert.equal((await sessions()).length, before.length + 1);
  const own = (await browser.get('/auth/sessions')).json();
  const listed = own.find(
    (item: { user_agent: string }) => item.user_agent === TERMINAL['user-agent'],
  );
  assert.equal(listed.current, false);
  const ended = await browser.request('DELETE', `/auth/sessions/${listed.id}`);
  assert.equal(ended.statusCode, 200);
  assert.equal((await app.inject({ url: '/auth/me', cookies })).statusCode, 401);
  assert.equal((await browser.get('/auth/me')).statusCode, 200);
});

test('the browser that signs a terminal in is not signed in itself', async () => {
  const browser = new Browser(app);
  const { verifier, code } = await codeOf(browser);
  assert.equal((await redeem(code, verifier)).statusCode, 200);
  assert.ok(!browser.cookies.has('svc_auth_session'));
});

test('nothing is handed over before the person agrees, nor in another browser or by another site', async () => {
  const browser = await signedIn(app);
  const page = await comeBack(browser, terminal().address);
  const confirm = `/auth/terminal/confirm${requestOf(page)}`;
  for (const stranger of [new Browser(app), await signedIn(app)]) {
    await stranger.get('/auth/login');
    assert.equal((await stranger.get(page)).json().code, 'terminal_request_not_valid');
    assert.equal((await stranger.post(confirm)).json().code, 'terminal_request_not_valid');
    const refused = await stranger.post(`/auth/terminal/refuse${requestOf(page)}`);
    assert.equal(refused.json().code, 'terminal_request_not_valid');
  }
  const forgeries: Record<string, string>[] = [
    { 'sec-fetch-site': 'cross-site' },
    { 'sec-fetch-site': 'same-site' },
    { origin: 'https://evil.test' },
    { origin: 'null' },
  ];
  for (const headers of forgeries) {
    for (const answer of ['confirm', 'refuse']) {
      const url = `/auth/terminal/${answer}${requestOf(page)}`;
      const forged = await browser.post(url, { headers });
      assert.equal(forged.statusCode, 403, answer);
      assert.equal(forged.json().code, 'cross_site_request');
    }
  }
  // Without the session cookie the server's own check looks at nothing.
  browser.cookies.delete('svc_auth_session');
  const headers = { 'sec-fetch-site': 'cross-site' };
  assert.equal((await browser.post(confirm, { headers })).statusCode, 403);
  const same = { 'sec-fetch-site': 'same-origin' };
  assert.equal((await browser.post(confirm, { headers: same })).statusCode, 303);
});

test('agreeing counts once, and so does a code', async () => {
  const browser = new Browser(app);
  const { verifier, address } = terminal();
  const page = await comeBack(browser, address);
  const back = await agree(browser, page);
  for (const answer of ['confirm', 'refuse']) {
    const again = await browser.post(`/auth/terminal/${answer}${requestOf(page)}`);
    assert.equal(again.json().code, 'terminal_request_not_valid');
  }
  const code = back.searchParams.get('code');
  const answers = await Promise.all([redeem(code, verifier), redeem(code, verifier, second)]);
  assert.deepEqual(new Set(answers.map(({ statusCode }) => statusCode)), new Set([200, 400]));
  assert.equal((await redeem(code, verifier)).json().code, 'terminal_code_not_valid');
});

test('a wrong verifier spends the code and ends the session', async () => {
  const before = (await sessions()).length;
  const { verifier, code } = await codeOf(new Browser(app));
  assert.equal((await sessions()).length, before + 1);
  assert.equal((await redeem(code, random())).json().code, 'terminal_code_not_valid');
  assert.equal((await redeem(code, verifier)).json().code, 'terminal_code_not_valid');
  assert.equal((await sessions()).length, before);
});

test('a code lives for a minute, a question for ten; what nobody came for is swept out', async () => {
  await db.updateTable('terminal_sign_ins').set({ expires_at: new Date() }).execute();
  await runSweep(db, sweepTerminalSignIns);
  const browser = new Browser(app);
  const before = (await sessions()).length;
  const left = () =>
    sql<{ seconds: number }>`
    select extract(epoch from max(expires_at) - now())::int as seconds from terminal_sign_ins`
      .execute(db)
      .then(({ rows }) => rows[0]?.seconds ?? 0);
  const page = await comeBack(browser, terminal().address);
  assert.ok(Math.abs((await left()) - 600) < 30);
  await db.updateTable('terminal_sign_ins').set({ expires_at: new Date() }).execute();
  assert.equal((await browser.get(page)).json().code, 'terminal_request_not_valid');

  const { verifier, code } = await codeOf(browser);
  assert.ok((await left()) <= 60);
  await db.updateTable('terminal_sign_ins').set({ expires_at: new Date() }).execute();
  assert.equal((await redeem(code, verifier)).json().code, 'terminal_code_not_valid');

  const kept = await codeOf(browser);
  assert.equal((await redeem(kept.code, kept.verifier)).statusCode, 200);
  await runSweep(db, sweepTerminalSignIns);
  assert.equal((await sessions()).length, before + 1);
});

test('the question and the cookie of its browser end together, however long the provider took', async () => {
  const browser = new Browser(app);
  const begun = await browser.get(terminal().address);
  const back = new URL(await provider.authorize(String(begun.headers.location)));
  const callback = await browser.get(back.pathname + back.search);
  const cookie = callback.cookies.find(({ name }) => name === 'svc_auth_session_login');
  const first = begun.cookies.find(({ name }) => name === 'svc_auth_session_login');
  assert.ok(cookie?.maxAge !== undefined);
  assert.equal(cookie.value, first?.value, 'other tabs of the browser go on with it');
  const { rows } = await sql<{ seconds: number }>`
    select extract(epoch from asked.expires_at - came_back.created_at)::int as seconds
    from terminal_sign_ins as asked
    join user_auth_sessions as came_back on came_back.id = asked.auth_session_id
    where asked.browser_id = ${cookie.value}`.execute(db);
  assert.ok(Math.abs(Number(rows[0]?.seconds) - cookie.maxAge) < 30, JSON.stringify(rows));
});

test('a refusal ends the session, and the terminal is told', async () => {
  const browser = await signedIn(app);
  const before = (await sessions()).length;
  const { state, address } = terminal();
  const page = await comeBack(browser, address);
  const answer = await browser.post(`/auth/terminal/refuse${requestOf(page)}`);
  assert.equal(answer.statusCode, 303);
  assert.equal(
    answer.headers.location,
    `http://127.0.0.1:${PORT}/?error=access_denied&state=${state}`,
  );
  assert.equal((await sessions()).length, before);
  assert.equal((await browser.get('/auth/me')).statusCode, 200);
  const { details } = await db
    .selectFrom('audit_log')
    .selectAll()
    .orderBy('id', 'desc')
    .executeTakeFirstOrThrow();
  assert.deepEqual(details, { platform: 'terminal', reason: 'refused' });
});

test('whoever is signed out meanwhile gets no session by a code', async () => {
  const { verifier, code } = await codeOf(new Browser(app));
  await db.deleteFrom('user_auth_sessions').where('user_id', '=', 'u-1').execute();
  assert.equal((await redeem(code, verifier)).statusCode, 400);
});

const malformed: Record<string, Record<string, string>> = {
  'a port that only root opens': { port: '80' },
  'the highest of these ports': { port: '1023' },
  'a port in sixteens': { port: '0x1000' },
  'a port with a power of ten': { port: '4e3' },
  'a port that is none': { port: '65536' },
  'an address for a port': { port: '1@evil.test' },
  'a short state': { state: 'short' },
  'a state with more in it': { state: `${'a'.repeat(30)}&x=1` },
  'a challenge that is none': { code_challenge: 'plain' },
  'the method plain': { code_challenge_method: 'plain' },
};
for (const [what, changes] of Object.entries(malformed)) {
  test(`${what} begins nothing`, async () => {
    const answer = await app.inject(terminal(changes).address);
    assert.equal(answer.statusCode, 400);
    assert.equal(answer.json().code, 'terminal_request_not_valid');
    assert.equal(answer.headers.location, undefined);
  });
}

test('beginning and redeeming count as sign-ins for the limit', async () => {
  const limited = await instance({ LOGIN_PER_MINUTE: '2' });
  const inject = (url: string) => limited.inject({ url, remoteAddress: '192.0.2.7' });
  assert.equal((await inject(terminal().address)).headers['ratelimit-remaining'], '1');
  const token = {
    method: 'POST',
    url: '/auth/terminal/token',
    remoteAddress: '192.0.2.7',
    payload: { code: 'a', code_verifier: random() },
  } as const;
  assert.equal((await limited.inject(token)).statusCode, 400);
  assert.equal((await limited.inject(token)).statusCode, 429);
  assert.equal((await inject(terminal().address)).statusCode, 429);
});

test('neither a code nor a verifier, a state or a session id is logged', async () => {
  const { verifier, state, address } = terminal();
  const browser = new Browser(app);
  const page = await comeBack(browser, address);
  const code = (await agree(browser, page)).searchParams.get('code');
  const { session_id: id } = (await redeem(code, verifier)).json();
  const logged = lines.join('');
  for (const secret of [code, verifier, state, id, requestOf(page).split('=')[1]]) {
    assert.ok(secret && !logged.includes(secret));
  }
});

// The embedded database has one connection: nobody waits for a lock there.
if (process.env['TEST_DATABASE_URL'] !== undefined) {
  test('the sweep of what no terminal came for passes by what others are ending', async () => {
    const { sid } = await signedIn(app);
    await db
      .insertInto('terminal_sign_ins')
      .values({
        id: 'late',
        auth_session_id: sid,
        browser_id: 'b',
        port: 1,
        state: 's',
        code_challenge: 'c',
        expires_at: new Date(0),
      })
      .execute();
    const sweeps: Promise<number>[] = [];
    await db.transaction().execute(async (trx) => {
      // As a statement that deletes many sessions: all of them first, and what refers to them at its end.
      await sql`select from user_auth_sessions where id = ${sid} for update`.execute(trx);
      const sweep = runSweep(db, sweepTerminalSignIns);
      sweeps.push(sweep);
      let isOver = false;
      const over = () => (isOver = true);
      void sweep.then(over, over);
      await until(async () => isOver || (await countBlocked(db)) > 0);
      await trx.deleteFrom('user_auth_sessions').where('id', '=', sid).execute();
    });
    assert.deepEqual(await Promise.all(sweeps), [0]);
  });
}
