import assert from 'node:assert/strict';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Server } from '@oselya/kit';
import { Browser } from '../helpers/assistant.ts';
import type { ScriptedProvider } from '../scripted-provider.ts';
import { type Replica, send } from './processes.ts';

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
