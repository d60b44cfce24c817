import assert from 'node:assert/strict';
import { createHmac } from 'node:crypto';
import { beforeEach, test } from 'node:test';
import { sql } from 'kysely';
import { type Browser, openAssistant } from '../helpers/assistant.ts';
import { until } from '../helpers/until.ts';
import { untilBlocked, whileLocked } from './locks.ts';
import { type Replica, type Sent, send, startProcess } from './processes.ts';

const WEBHOOK_SECRET = 'webhook secret of the tests';

const assistant = await openAssistant({ IDP_WEBHOOK_SECRET: WEBHOOK_SECRET });
const { db, engine, provider, instance, signedIn } = assistant;
const app = await instance();
const replica = { url: await app.listen({ host: '127.0.0.1', port: 0 }) };

beforeEach(() => provider.reset());

/** What happens in one transaction, whose last statement is a line of the audit trail. */
type Act = {
  /** A request that does it; made anew for each try, since a sign-in's is good for one. */
  request: (browser: Browser) => Promise<Sent>;
  status: number;
  /** What the trail then tells of the user, in this order. */
  recorded: string[];
};

const acts: Record<string, Act> = {
  'a sign-in': {
    request: async (browser) => ({ path: await browser.begin(provider) }),
    status: 302,
    // The browser's earlier sign-in ends with it.
    recorded: ['signed_out', 'signed_in'],
  },
  'a logout': {
    request: () => Promise.resolve({ path: '/auth/logout', method: 'POST' }),
    status: 200,
    recorded: ['signed_out'],
  },
  'a webhook': {
    request: () => {
      const body = JSON.stringify({ event: 'user.blocked', user_id: 'u-1' });
      const signature = createHmac('sha256', WEBHOOK_SECRET).update(body).digest('hex');
      const headers = { 'content-type': 'application/json', 'x-webhook-signature': signature };
      return Promise.resolve({ path: '/webhooks/idp', method: 'POST', headers, body });
    },
    status: 200,
    recorded: ['sign_ins_ended'],
  },
};

/** All that such an act writes. */
const written = async () => ({
  users: await db.selectFrom('svc_users').selectAll().orderBy('id').execute(),
  sessions: await db.selectFrom('user_auth_sessions').selectAll().orderBy('id').execute(),
  audit: await db.selectFrom('audit_log').selectAll().orderBy('id').execute(),
  webhooks: await db.selectFrom('webhook_events').selectAll().orderBy('id').execute(),
  invalidations: await db.selectFrom('invalidations').selectAll().orderBy('id').execute(),
});

/** Does it once more, and looks that it happened, once. */
async function repeat(act: Act, browser: Browser, at: Replica): Promise<void> {
  const before = await written();
  const { status, headers } = await send(at, browser, await act.request(browser));
  assert.equal(status, act.status);
  const after = await written();
  const added = after.audit.slice(before.audit.length);
  assert.deepEqual(
    added.map(({ action, user_id }) => [action, user_id]),
    act.recorded.map((action) => [action, 'u-1']),
  );
  assert.ok(!after.sessions.some(({ id }) => id === browser.sid), 'the session until now is over');
  const came = /^svc_auth_session=([\w-]{43})/.exec(headers.get('set-cookie') ?? '')?.[1];
  assert.equal(
    after.sessions.some(({ id }) => id === came),
    act.recorded.includes('signed_in'),
  );
}

for (const [name, act] of Object.entries(acts)) {
  test(`${name} that the database hangs up on has not happened, and can be repeated`, async () => {
    const browser = await signedIn(app);
    const request = await act.request(browser);
    const before = await written();
    await sql`
      create function hang_up() returns trigger language plpgsql as $$
      begin
        raise exception 'terminating connection due to administrator command' using errcode = '57P01';
      end $$`.execute(db);
    await sql`
      create trigger hang_up before insert on audit_log
      for each row execute function hang_up()`.execute(db);
    try {
      const { status, headers } = await send(replica, browser, request);
      assert.equal(status, 503);
      assert.equal(headers.get('retry-after'), '5');
      assert.equal(headers.get('set-cookie'), null);
    } finally {
      await sql`drop function hang_up cascade`.execute(db);
    }
    assert.deepEqual(await written(), before);
    await repeat(act, browser, replica);
  });
}

// Killing takes a process, and a process takes a database that it can reach.
if (engine === 'postgres') {
  const lock = sql`lock table audit_log in share row exclusive mode`;
  for (const [name, act] of Object.entries(acts)) {
    test(`${name} whose process is killed has not happened, and another process takes it`, async () => {
      const victim = await startProcess(assistant);
      const browser = await signedIn(app);
      const request = await act.request(browser);
      const before = await written();
      await whileLocked(db, lock, async () => {
        const lost = send(victim, browser, request);
        const failed = assert.rejects(lost);
        await untilBlocked(db);
        await victim.kill();
        await failed;
      });
      // The server finds out by and by that its client is gone; the lock waits for that.
      await whileLocked(db, lock, () => Promise.resolve());
      assert.deepEqual(await written(), before);
      await repeat(act, browser, replica);
    });
  }

  for (const endpoint of ['token', 'userinfo'] as const) {
    test(`a sign-in whose process is killed while it waits for ${endpoint} begins again`, async () => {
      const victim = await startProcess(assistant);
      const browser = await signedIn(app);
      const callback = { path: await browser.begin(provider) };
      const before = await written();
      const answer = provider.holdNext(endpoint);
      const failed = assert.rejects(send(victim, browser, callback));
      await until(() => provider.count(endpoint) === 1);
      await victim.kill();
      await failed;
      answer();
      assert.deepEqual(await written(), before);
      assert.equal((await send(replica, browser, callback)).status, 400);
      assert.equal(provider.count('token'), 1, 'its code is not redeemed again');
      assert.deepEqual(await written(), before, 'the session until now stays');
      const act = acts['a sign-in'];
      assert.ok(act !== undefined);
      await repeat(act, browser, replica);
    });
  }
}
