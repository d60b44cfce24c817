import assert from 'node:assert/strict';
import { createHmac } from 'node:crypto';
import { suite, beforeEach, test } from 'node:test';
import { connect } from '@oselya/db';
import { atEnd, cutConnections } from '@oselya/db/testing';
import { createLogger } from '@oselya/kit';
import { chunk, streamed, toolCallChunk } from '@oselya/model/testing';
import { sql } from 'kysely';
import { createApp } from '../../src/app.ts';
import { readConfig } from '../../src/config.ts';
import type { Tables } from '../../src/tables.ts';
import { openStage, type Talker, talk } from '../chat/stage.ts';
import { type Browser, openAssistant } from '../helpers/assistant.ts';
import { endEveryOtherDeletion } from '../helpers/conflicts.ts';
import { person } from '../helpers/people.ts';
import { gate } from '../helpers/scripted-model.ts';
import { SocketClient } from '../helpers/socket-client.ts';
import { until } from '../helpers/until.ts';
import {
  type Cut,
  cutAtServer,
  cutOnTheWay,
  startRequests,
  startSignIns,
  untilBlocked,
  whileLocked,
  countBlocked,
} from './helpers.ts';
import { send, startProcess, type Replica, type Sent } from './processes.ts';

suite('outage of the database', async () => {
  const SESSIONS = 20;
  const PEOPLE = 4;
  /** How many requests meet the outage before it ends. */
  const REFUSED = 200;

  const assistant = await openAssistant();
  const { db, databaseUrl, provider, instance, settings, signedIn } = assistant;
  const app = await instance();

  beforeEach(() => provider.reset());

  test('without its database the assistant answers 503 and takes no cookie away', async () => {
    const database = await connect<Tables>({ url: databaseUrl });
    const bereft = await createApp({
      config: readConfig(settings()),
      database,
      log: createLogger({ level: 'fatal', service: 'assistant', destination: { write() {} } }),
    });
    atEnd(() => bereft.close());
    const browser = await signedIn(app);
    const callback = await browser.begin(provider);
    const cookies = new Map(browser.cookies);
    await database.close();
    for (const [method, path] of [
      ['GET', '/auth/me'],
      ['GET', '/'],
      ['GET', '/auth/login'],
      ['GET', callback],
      ['POST', '/auth/logout'],
      ['GET', '/health'],
    ] as const) {
      const answer = await browser.request(method, path, { app: bereft });
      assert.equal(answer.statusCode, 503, path);
      assert.ok(Number(answer.headers['retry-after']) > 0, path);
      if (path !== '/health') assert.equal(answer.json().code, 'unavailable');
      else
        assert.match(
          answer.json().checks.database.detail,
          /^The check failed \(\w+\); see the log\.$/,
        );
      assert.deepEqual(browser.cookies, cookies);
    }
    assert.equal((await browser.get('/auth/me')).statusCode, 200);
  });

  /** How many refreshes the rows of sessions tell of, and how many of their leases nobody holds any more. */
  async function refreshes() {
    const { rows } = await sql<{ stored: number; leases: number }>`
    select coalesce(sum(token_version), 0)::int as stored, count(refresh_lease_until)::int as leases
    from user_auth_sessions`.execute(db);
    const [row] = rows;
    assert.ok(row !== undefined);
    return row;
  }

  /** As if the time of all leases were over. */
  async function endLeases(): Promise<void> {
    await db.updateTable('user_auth_sessions').set({ refresh_lease_until: null }).execute();
  }

  // What can be cut is a connection to a server; the embedded database is in the process.
  if (databaseUrl !== undefined) {
    test('the first request after all connections were cut is answered, for each method', async () => {
      const browser = await signedIn(app, person('u-1', { permissions: ['svc.memory.read_own'] }));
      const fact = { url: '/memory/facts/home/rooms', payload: { value: '2' } };
      for (const [method, url, status] of [
        ['GET', '/auth/me', 200],
        ['PUT', fact.url, 201],
        ['GET', '/memory/facts', 200],
        ['DELETE', fact.url, 200],
      ] as const) {
        cutConnections(databaseUrl);
        const body = method === 'PUT' ? { payload: fact.payload } : {};
        const answer = await browser.request(method, url, body);
        assert.equal(answer.statusCode, status, `${method} ${url}: ${answer.body}`);
      }
    });

    const cuts: Record<string, (url: string) => Promise<Cut>> = {
      'a server that restarts': cutAtServer,
      'a network that breaks': cutOnTheWay,
    };
    for (const [name, open] of Object.entries(cuts)) {
      test(`${name} under load signs nobody out, loses no sign-in and closes no socket`, async (context) => {
        await db.deleteFrom('user_auth_sessions').execute();
        const cut = await open(databaseUrl);
        context.after(() => cut.close());
        const replicas = await Promise.all(
          [0, 1].map(() => startProcess(assistant, { DATABASE_URL: cut.url })),
        );
        // Every request finds its access token expired, and refreshes it.
        provider.token.expiresIn = 0;
        const browsers: Browser[] = [];
        const user = person('u-1', { permissions: ['svc.profiles.use'] });
        for (let count = 0; count < SESSIONS; count += 1) browsers.push(await signedIn(app, user));
        const [first] = browsers;
        assert.ok(first !== undefined);
        const sockets = await Promise.all(
          replicas.map(({ url }) => SocketClient.open(url, { sid: first.sid })),
        );
        const requests = startRequests(browsers, replicas);
        const signIns = startSignIns(PEOPLE, replicas, { app, provider });
        await until(
          () => requests.result.ok >= SESSIONS && signIns.result.accepted.length >= PEOPLE,
        );
        await cut.away();
        await until(() => requests.result.outage >= REFUSED && signIns.result.outage >= PEOPLE);
        await cut.back();
        const before = { ok: requests.result.ok, accepted: signIns.result.accepted.length };
        await until(
          () =>
            requests.result.ok >= before.ok + SESSIONS &&
            signIns.result.accepted.length >= before.accepted + PEOPLE,
        );
        await Promise.all([requests.stop(), signIns.stop()]);

        const { stored, leases } = await refreshes();
        const redeemed = provider.count('token', 'refresh_token');
        const rows = await db.selectFrom('user_auth_sessions').select('id').execute();
        const ids = new Set(rows.map(({ id }) => id));
        const { accepted } = signIns.result;
        const lost = [...accepted, ...browsers.map(({ sid }) => sid)].filter(
          (sid) => !ids.has(sid),
        );
        context.diagnostic(
          `requests: ${requests.result.ok} × 200, ${requests.result.outage} × 503; ` +
            `sign-ins: ${accepted.length} accepted, ${signIns.result.outage} × 503, ${lost.length} lost, ` +
            `${rows.length - SESSIONS - accepted.length} stored and not answered; ` +
            `refreshes: ${redeemed} redeemed, ${stored} stored, ${leases} leases abandoned`,
        );
        assert.deepEqual([...requests.result.other, ...signIns.result.other], []);
        assert.deepEqual(lost, []);
        assert.equal(redeemed, stored, 'every redemption was stored, once');
        await endLeases();
        for (const socket of sockets) {
          await until(async () => (await socket.outcome({ type: 'session.create' })) === 'ok');
        }
        for (const replica of replicas) {
          for (const browser of browsers) {
            assert.equal((await send(replica, browser, { path: '/auth/me' })).status, 200);
          }
        }
        // What one process does is heard by the others again.
        assert.equal((await first.post('/auth/logout')).statusCode, 200);
        for (const socket of sockets) assert.equal((await socket.closed).code, 4401);
      });
    }
  }
});

suite('interrupted transactions', async () => {
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
    assert.ok(
      !after.sessions.some(({ id }) => id === browser.sid),
      'the session until now is over',
    );
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
});

suite('order of locks', async () => {
  // The embedded database has one connection: nobody waits for a lock there.
  if (process.env['TEST_DATABASE_URL'] !== undefined) {
    const stage = await openStage();
    const { app, db, url } = stage;

    const request = (
      method: 'DELETE' | 'PATCH' | 'POST',
      path: string,
      sid: string,
      payload?: object,
    ) =>
      app.inject({
        method,
        url: path,
        cookies: { svc_auth_session: sid },
        ...(payload !== undefined && { payload }),
      });

    type Case = { who: Talker; id: string; sid: string };

    /** What takes the lock of the owner and that of a session, and how it ends well. */
    const asked = {
      message: async ({ who, id }: Case) => (await who.say(id, 'Добрий день')).type,
      file: async ({ id, sid }: Case) => {
        const path = `/sessions/${id}/files/a.txt`;
        const headers = { 'content-type': 'application/octet-stream' };
        const cookies = { svc_auth_session: sid };
        return (await app.inject({ method: 'PUT', url: path, headers, cookies, payload: 'a' }))
          .statusCode;
      },
      deletion: async ({ sid }: Case) => (await request('DELETE', '/me/data', sid)).statusCode,
      search: async ({ id, sid }: Case) => {
        const search = { name: 'Дім', search: { query: 'дім' }, session_id: id };
        return (await request('POST', '/saved-searches', sid, search)).statusCode;
      },
    };

    const blocked = () => countBlocked(db);

    for (const [first, second, expected] of [
      ['message', 'deletion', ['message.started', 200]],
      ['message', 'search', ['message.started', 201]],
      ['file', 'deletion', [201, 200]],
      ['file', 'search', [201, 201]],
    ] as const) {
      test(`a ${first} and a ${second} of one session wait for each other in one order`, async (t) => {
        const sid = await stage.signIn(`u-${first}-${second}`);
        const who = await talk(t, { url, sid });
        const id = await who.newSession();
        const both: Promise<unknown>[] = [];
        await whileLocked(
          db,
          sql`select from conversation_sessions where id = ${id} for update`,
          async () => {
            for (const [index, name] of [first, second].entries()) {
              both.push(asked[name]({ who, id, sid }));
              await until(async () => (await blocked()) === index + 1);
            }
          },
        );
        assert.deepEqual(await Promise.all(both), expected);
      });
    }

    test('a deletion that the database ends for the sake of another is made again', async (t) => {
      const sid = await stage.signIn('u-ended');
      const who = await talk(t, { url, sid });
      const id = await who.newSession();
      await who.newSession();
      await endEveryOtherDeletion(t, db, 'conversation_sessions');
      assert.equal((await request('DELETE', `/sessions/${id}`, sid)).statusCode, 200);
      const rest = await request('DELETE', '/me/data', sid);
      assert.partialDeepStrictEqual(rest.json(), { deleted: { sessions: 1 } });
    });

    const locks = {
      owner: sql`select pg_advisory_xact_lock(1, hashtext('u-olena'))`,
      // As an adoption of legacy data does.
      memory: sql`lock table memory_facts, memory_summaries in share row exclusive mode`,
    };
    for (const [whose, lock] of Object.entries(locks)) {
      test(`a tool that waits for the lock of ${whose} does not hold up the end of its answer, and changes nothing later`, async (t) => {
        const sid = await stage.signIn('u-olena');
        const olena = await talk(t, { url, sid });
        const id = await olena.newSession();
        const ready = gate();
        t.after(ready.open);
        const fact = JSON.stringify({ category: 'wishes', key: 'city', value: 'Львів' });
        const call = toolCallChunk({ id: '1', name: 'remember_fact', arguments: fact });
        const last = chunk({}, { finishReason: 'tool_calls' });
        stage.model.scripts.push({ answer: streamed([() => ready.opened, call, last]) });
        await olena.say(id, 'Львів');
        await whileLocked(db, lock, async () => {
          ready.open();
          await until(async () => (await blocked()) === 1);
          olena.client.send({ type: 'message.cancel', session_id: id });
          const { message } = await olena.waitFor('message.completed');
          assert.partialDeepStrictEqual(message, { status: 'cancelled' });
        });
        // Who waited for the lock has had it by then.
        await whileLocked(db, lock, () => Promise.resolve());
        assert.deepEqual(await db.selectFrom('memory_facts').selectAll().execute(), []);
        assert.partialDeepStrictEqual(await stage.steps(id), [{ status: 'failed', changes: null }]);
        assert.equal(olena.of('tool.finished').length, 0);
      });
    }
  }
});
