import assert from 'node:assert/strict';
import { once } from 'node:events';
import type { ServerResponse } from 'node:http';
import { type AddressInfo, connect, createServer, type Socket } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import { gzipSync } from 'node:zlib';
import type { Server } from '@oselya/kit';
import { type Kysely, type RawBuilder, sql, type Transaction } from 'kysely';
import pg from 'pg';
import type { Tables } from '../../src/tables.ts';
import { Browser } from '../helpers/assistant.ts';
import { until } from '../helpers/until.ts';
import type { ScriptedProvider, Fault } from '../scripted-provider.ts';
import { type Replica, send } from './processes.ts';

/** A way to take a server away from its clients, and to give it back. */
export type Cut = {
  /** The address that is cut. */
  url: string;
  away(): Promise<void>;
  back(): Promise<void>;
  close(): Promise<void>;
};

/**
 * Cuts a database as a restart of its server does: it ends all connections and takes no new ones. Other
 * databases of the server, which belong to other tests, notice nothing.
 */
export async function cutAtServer(databaseUrl: string): Promise<Cut> {
  const name = new URL(databaseUrl).pathname.slice(1);
  const elsewhere = new pg.Client({ connectionString: process.env['TEST_DATABASE_URL'] });
  await elsewhere.connect();
  async function back() {
    await elsewhere.query(`alter database ${name} allow_connections true`);
  }
  return {
    url: databaseUrl,
    async away() {
      await elsewhere.query(`alter database ${name} allow_connections false`);
      await elsewhere.query(
        'select pg_terminate_backend(pid) from pg_stat_activity where datname = $1',
        [name],
      );
    },
    back,
    async close() {
      await back();
      await elsewhere.end();
    },
  };
}

/** Cuts the way to a database, or to an assistant: connections break, and nobody listens at its address. */
export async function cutOnTheWay(
  address: string,
): Promise<Cut & { leadTo(address: string): void }> {
  let target = new URL(address);
  const sockets = new Set<Socket>();
  const proxy = createServer((near) => {
    const far = connect(Number(target.port || 5432), target.hostname);
    for (const socket of [near, far]) {
      sockets.add(socket);
      socket.on('error', () => undefined);
      socket.on('close', () => {
        sockets.delete(socket);
        near.destroy();
        far.destroy();
      });
    }
    near.pipe(far).pipe(near);
  });
  proxy.listen(0, '127.0.0.1');
  await once(proxy, 'listening');
  const { port } = proxy.address() as AddressInfo;
  const url = new URL(target);
  url.hostname = '127.0.0.1';
  url.port = String(port);
  async function away() {
    const closed = once(proxy, 'close');
    proxy.close();
    // Without a reset: Node, having reset some at once, now and then never ended (its loop spun at the exit).
    for (const socket of sockets) socket.destroy();
    await closed;
  }
  return {
    url: url.href,
    away,
    /** Has connections that are made from then on lead elsewhere. */
    leadTo(other) {
      target = new URL(other);
    },
    async back() {
      proxy.listen(port, '127.0.0.1');
      await once(proxy, 'listening');
    },
    close: async () => {
      if (proxy.listening) await away();
    },
  };
}

/** How long a client rests between two requests. */
const REST_MS = 5;

/** Work that is repeated until it is stopped, by all clients at once. */
type Load<Result> = {
  /** What came of it so far. */
  result: Result;
  stop(): Promise<void>;
};

/** Has each client repeat its work, at each replica in turn. */
function repeat<Client, Result>(
  clients: readonly Client[],
  replicas: readonly Replica[],
  result: Result,
  work: (client: Client, replica: Replica) => Promise<void>,
): Load<Result> {
  const stopped = new AbortController();
  const running = Promise.all(
    clients.map(async (client) => {
      for (let turn = 0; !stopped.signal.aborted; turn += 1) {
        const replica = replicas[turn % replicas.length];
        assert.ok(replica !== undefined);
        await work(client, replica);
        await sleep(REST_MS);
      }
    }),
  );
  return {
    result,
    async stop() {
      stopped.abort();
      await running;
    },
  };
}

/** What requests were answered with. */
export type Answers = { ok: number; outage: number; other: string[] };

/** Browsers that ask who they are. An outage says when to come again and touches no cookie. */
export function startRequests(
  browsers: readonly Browser[],
  replicas: readonly Replica[],
): Load<Answers> {
  const answers: Answers = { ok: 0, outage: 0, other: [] };
  return repeat(browsers, replicas, answers, async (browser, replica) => {
    const { status, headers, body } = await send(replica, browser, { path: '/auth/me' });
    const isAsItShould =
      !headers.has('set-cookie') && headers.has('retry-after') === (status === 503);
    if (status === 200 && isAsItShould) answers.ok += 1;
    else if (status === 503 && isAsItShould) answers.outage += 1;
    else answers.other.push(`${status} ${body}`);
  });
}

/** Which sessions came of sign-ins, and how many sign-ins met the outage. */
export type SignIns = { accepted: string[]; outage: number; other: string[] };

/** People who sign in, each time in a new browser. */
export function startSignIns(
  people: number,
  replicas: readonly Replica[],
  { app, provider }: { app: Server; provider: ScriptedProvider },
): Load<SignIns> {
  const signIns: SignIns = { accepted: [], outage: 0, other: [] };
  const isOutage = ({ status, body }: { status: number; body: string }): void => {
    if (status === 503) signIns.outage += 1;
    else signIns.other.push(`${status} ${body}`);
  };
  return repeat(Array.from({ length: people }), replicas, signIns, async (_person, replica) => {
    const browser = new Browser(app);
    const login = await send(replica, browser, { path: '/auth/login' });
    const browserId = cookie(login, 'svc_auth_session_login');
    if (login.status !== 302 || browserId === undefined) return isOutage(login);
    browser.cookies.set('svc_auth_session_login', browserId);
    const back = new URL(await provider.authorize(login.headers.get('location') ?? ''));
    const done = await send(replica, browser, { path: back.pathname + back.search });
    const sid = cookie(done, 'svc_auth_session');
    if (done.status !== 302 || sid === undefined) return isOutage(done);
    signIns.accepted.push(sid);
  });
}

function cookie({ headers }: { headers: Headers }, name: string): string | undefined {
  const set = headers.getSetCookie().find((one) => one.startsWith(`${name}=`));
  return set?.slice(name.length + 1).split(';')[0];
}

/**
 * Keeps what a statement locks while `work` runs, then lets go of it unchanged. PostgreSQL only: the
 * embedded database has one connection.
 */
export async function whileLocked(
  db: Kysely<Tables>,
  lock: RawBuilder<unknown>,
  work: () => Promise<void>,
): Promise<void> {
  await db.transaction().execute(async (trx) => {
    await lock.execute(trx);
    await work();
  });
}

/**
 * Waits until another connection waits for a lock, and gives the number of its server process.
 * @param kind Of the lock, as `wait_event` has it; any, unless it is said.
 */
export async function untilBlocked(
  db: Kysely<Tables> | Transaction<Tables>,
  kind?: 'advisory',
): Promise<number> {
  let pid: number | undefined;
  await until(async () => {
    const { rows } = await sql<{ pid: number }>`
      select pid from pg_stat_activity
      where datname = current_database() and wait_event_type = 'Lock'
        and wait_event = coalesce(${kind ?? null}, wait_event)`.execute(db);
    pid = rows[0]?.pid;
    return pid !== undefined;
  });
  if (pid === undefined) throw new Error('Nobody is blocked');
  return pid;
}

/** How many connections wait for a lock of any kind. */
export async function countBlocked(db: Kysely<Tables>): Promise<number> {
  const { rows } = await sql<{ count: number }>`
    select count(*)::int as count from pg_stat_activity
    where datname = current_database() and wait_event_type = 'Lock'`.execute(db);
  return rows[0]?.count ?? 0;
}

/** Ends the server's side of a connection, as the server does when it notices that a client is dead. */
export async function terminate(db: Kysely<Tables>, pid: number): Promise<void> {
  await sql`select pg_terminate_backend(${pid})`.execute(db);
}

const MEGABYTE = 1024 * 1024;

/** How much of the endless answer was taken off the provider's hands before the assistant hung up. */
export const sent = { bytes: 0 };

const json = { 'content-type': 'application/json' };

/** A hundred megabytes, as fast as they are taken. */
async function sendHugeAnswer(response: ServerResponse): Promise<void> {
  const chunk = Buffer.alloc(64 * 1024, ' ');
  const controller = new AbortController();
  response.on('close', () => controller.abort());
  sent.bytes = 0;
  response.writeHead(200, json);
  while (sent.bytes < 100 * MEGABYTE && !response.destroyed) {
    sent.bytes += chunk.length;
    if (!response.write(chunk)) {
      await once(response, 'drain', { signal: controller.signal }).catch(() => undefined);
    }
  }
  response.end();
}

/** Writes what is no HTTP, or not what its headers promise. */
const raw = (text: string) => (response: ServerResponse) => void response.socket?.end(text);

/** Small, and huge when it is unpacked. */
const bomb = gzipSync(Buffer.alloc(20 * MEGABYTE, ' '));

const deep = `${'['.repeat(100_000)}${']'.repeat(100_000)}`;

/**
 * What a provider answers, at any endpoint, when something is wrong with it or on the way to it. None
 * of these says anything about a token.
 */
export const outages: Record<string, Fault> = {
  'hangs up': 'disconnect',
  fails: { status: 500, body: '{"error":"invalid_grant"}' },
  'is behind a proxy that cannot reach it': { status: 502, body: '<h1>Bad gateway</h1>' },
  'is overloaded': { status: 503, headers: { 'retry-after': '3600' } },
  'is replaced by a page': {
    status: 200,
    body: '<!doctype html>',
    headers: { 'content-type': 'text/html' },
  },
  'is not found': { status: 404, body: '{"message":"no route"}' },
  'limits the rate': { status: 429, body: '{"error":"invalid_grant"}' },
  'is slow by its own word': { status: 408 },
  'is not found by a gateway': { status: 404, body: '{"error":"not_found"}' },
  'is not allowed that method': { status: 405 },
  'is forbidden by a gateway': { status: 403, body: '{"message":"Forbidden"}' },
  'is limited by a gateway': { status: 403, body: '{"error":"rate_limit_exceeded"}' },
  'is blocked for legal reasons': { status: 451, body: '<h1>Blocked</h1>' },
  'explains nothing': { status: 403 },
  'says that it is not itself': { status: 403, body: '{"error":"invalid_client"}' },
  'redirects to another place': { status: 302, headers: { location: 'http://127.0.0.1:1/' } },
  'redirects to itself': { status: 307, headers: { location: '/oauth/token' } },
  'redirects for good, to a file': { status: 308, headers: { location: 'file:///etc/passwd' } },
  'has nothing to say': { status: 204 },
  'answers with nothing': { status: 200 },
  'answers with garbage': { status: 200, body: '\u0000\uffff{]' },
  'answers with bytes that are no text': (response) =>
    void response.writeHead(200, json).end(Buffer.from([0xff, 0xfe, 0x00, 0xc3, 0x28])),
  'answers with another kind of JSON': { status: 200, body: '[1,"access_token",null]' },
  'answers with a number': { status: 200, body: '1e400' },
  'answers with JSON that is too deep': { status: 200, body: deep },
  'answers with a prototype': {
    status: 200,
    body: '{"__proto__":{"access_token":"a","sub":"u-1","email":"e@example.test"}}',
  },
  'answers with half of it': (response) =>
    response
      .writeHead(200, { ...json, 'content-length': '4000' })
      .write('{"access_token":"half', () => response.destroy()),
  'breaks off between two chunks': raw(
    'HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ntransfer-encoding: chunked\r\n\r\n8\r\n{"access\r\n',
  ),
  'miscounts a chunk': raw(
    'HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ntransfer-encoding: chunked\r\n\r\nzz\r\n{}\r\n0\r\n\r\n',
  ),
  'speaks no HTTP': raw('220 mail.example.test ESMTP\r\n'),
  'has endless headers': raw(`HTTP/1.1 200 OK\r\n${'x: y\r\n'.repeat(20_000)}\r\n{}`),
  'compresses wrongly': (response) =>
    void response.writeHead(200, { ...json, 'content-encoding': 'gzip' }).end('not gzip'),
  'sends a small answer that unpacks to a huge one': (response) =>
    void response.writeHead(200, { ...json, 'content-encoding': 'gzip' }).end(bomb),
  'answers with a hundred megabytes': (response) => void sendHugeAnswer(response),
};
