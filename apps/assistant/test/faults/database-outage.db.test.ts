import assert from 'node:assert/strict';
import { beforeEach, test } from 'node:test';
import { connect } from '@oselya/db';
import { atEnd, cutConnections } from '@oselya/db/testing';
import { createLogger } from '@oselya/kit';
import { sql } from 'kysely';
import { createApp } from '../../src/app.ts';
import { readConfig } from '../../src/config.ts';
import type { Tables } from '../../src/tables.ts';
import { type Browser, openAssistant } from '../helpers/assistant.ts';
import { person } from '../helpers/people.ts';
import { SocketClient } from '../helpers/socket-client.ts';
import { until } from '../helpers/until.ts';
import { type Cut, cutAtServer, cutOnTheWay } from './cuts.ts';
import { startRequests, startSignIns } from './load.ts';
import { send, startProcess } from './processes.ts';

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
      await until(() => requests.result.ok >= SESSIONS && signIns.result.accepted.length >= PEOPLE);
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
      const lost = [...accepted, ...browsers.map(({ sid }) => sid)].filter((sid) => !ids.has(sid));
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
