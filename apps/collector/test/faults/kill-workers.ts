import assert from 'node:assert/strict';
import { atEnd, until } from '@oselya/testing';
import type { Kysely } from 'kysely';
import { fork } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Tables } from '../../src/tables.ts';
import { store } from '../support/pipeline.ts';
import { repetitions } from '../support/soak.ts';
import { startAnsweringServer, type CallMoment } from './answering-server.ts';
import { countLeft, nextPayload, random } from './killed-load.ts';
import { STATEMENTS, startWatchingProxy, type Moment } from './watching-proxy.ts';
import type { WorkerSettings } from './worker-process.ts';

/** The compile cache, which makes each start a fifth faster. */
const cache = await mkdtemp(join(tmpdir(), 'oselya-compiled-'));
atEnd(() => rm(cache, { recursive: true, force: true }));

const WORKER = join(import.meta.dirname, 'worker-process.ts');

export type WorkerProcess = ReturnType<typeof startWorkerProcess>;

/** Starts a worker to kill; `works` and `ended` resolve at its start and end. */
export function startWorkerProcess(settings: WorkerSettings) {
  const child = fork(WORKER, [JSON.stringify(settings)], {
    env: { ...process.env, NODE_COMPILE_CACHE: cache },
  });
  return { child, works: once(child, 'message'), ended: once(child, 'exit') };
}

const AT_ONCE = 3;
/** The number of kills at random moments. */
const AT_RANDOM = repetitions({ soak: 50, ci: 2 });
const MOST_WORK_MS = 400;
/** The bound until a worker reaches its point. */
const PATIENCE_MS = 60_000;

const THUMBNAIL_SIDES = ['before', 'after'] as const;

/** In CI each statement and call is met once, alternating before and after. */
const SIDES_OF_EACH = repetitions({ soak: 2, ci: 1 });
const sidesOf = (nth: number) =>
  [...THUMBNAIL_SIDES, ...THUMBNAIL_SIDES].slice(nth % 2, (nth % 2) + SIDES_OF_EACH);

/** Points before and after the statements of the stages and the claim. */
const STATEMENT_MOMENTS = Object.entries(STATEMENTS).flatMap(([name, statement], nth) =>
  sidesOf(nth).map((when) => ({ name, statement, when, nth: 1 })),
);

/**
 * Points during each call to the model and at its response. After a reading the job is between the stages
 * `validate` and `normalize`, neither of which has a statement.
 */
const CALL_MOMENTS = (['reading', 'describing', 'embedding'] as const).flatMap((asked, nth) =>
  sidesOf(nth).map((when) => ({ asked, when })),
);

export const KILLS = STATEMENT_MOMENTS.length + CALL_MOMENTS.length + AT_RANDOM;

/**
 * Kills workers before and after each stage's statements and calls to the model, and at any moment, while
 * others go on.
 * @returns The number of kills at each point, and the ids of payloads accepted meanwhile.
 */
export async function killWorkers(
  db: Kysely<Tables>,
  given: { url: string; folder: string; modelUrl: string; imageHost: string },
): Promise<{ kills: Map<string, number>; accepted: number[] }> {
  const { imageHost, ...settings } = given;
  const anywhere = Array.from({ length: AT_RANDOM }, () => 'anywhere' as const);
  const waiting = [...STATEMENT_MOMENTS, ...CALL_MOMENTS, ...anywhere]
    // Calls come first, since only the first payloads of each listing have something to embed.
    .map((what) => ({ what, place: random() + (what !== 'anywhere' && 'asked' in what ? 1 : 0) }))
    .toSorted((one, other) => one.place - other.place)
    .map(({ what }) => what);
  const kills = new Map<string, number>();
  const accepted: number[] = [];
  const over = new AbortController();

  async function feed(): Promise<void> {
    while (!over.signal.aborted) {
      if ((await countLeft(db)) < 12) {
        for (let more = 0; more < 6; more += 1) {
          accepted.push(await store(db, nextPayload(accepted.length + 1, imageHost)));
        }
      }
      await sleep(20);
    }
  }

  async function killAt(moment: Moment & { name: string }): Promise<void> {
    const proxy = await startWatchingProxy(new URL(settings.url), moment, () =>
      worker.child.kill('SIGKILL'),
    );
    await using opened = new AsyncDisposableStack();
    opened.defer(() => proxy.close());
    const worker = startWorkerProcess({ ...settings, url: proxy.url });
    await killed(worker, `${moment.name}, ${moment.when}`);
  }

  async function killAtCall(moment: CallMoment): Promise<void> {
    const onMoment = () => void worker.child.kill('SIGKILL');
    await using server = await startAnsweringServer({ ...moment, onMoment });
    const worker = startWorkerProcess({ ...settings, modelUrl: server.url });
    await killed(worker, `${moment.asked}, ${moment.when}`);
  }

  /** Waits until a worker has been killed at its point. */
  async function killed(worker: WorkerProcess, point: string): Promise<void> {
    const late = setTimeout(() => worker.child.kill('SIGTERM'), PATIENCE_MS);
    const [, signal] = (await worker.ended) as [number | null, string | null];
    clearTimeout(late);
    assert.equal(signal, 'SIGKILL', `no worker came to the point "${point}"`);
    count(point);
  }

  async function killAnywhere(): Promise<void> {
    const worker = startWorkerProcess(settings);
    await worker.works;
    await sleep(random() * MOST_WORK_MS);
    worker.child.kill('SIGKILL');
    await worker.ended;
    count('at random');
  }

  function count(point: string): void {
    kills.set(point, (kills.get(point) ?? 0) + 1);
  }

  async function killOnAndOn(): Promise<void> {
    for (let next = waiting.pop(); next !== undefined; next = waiting.pop()) {
      if (next === 'anywhere') await killAnywhere();
      else await ('asked' in next ? killAtCall(next) : killAt(next));
    }
  }

  const killers = Array.from({ length: AT_ONCE }, () =>
    killOnAndOn().catch((error: unknown) => {
      // The other workers finish their jobs.
      waiting.length = 0;
      throw error;
    }),
  );
  const killing = Promise.allSettled(killers).finally(() => over.abort());
  await Promise.all([feed(), killing]);
  await Promise.all(killers);
  // An undisturbed worker ends the rest.
  const last = startWorkerProcess(settings);
  await until('the queue to be empty', async () => (await countLeft(db)) === 0);
  last.child.kill('SIGKILL');
  await last.ended;
  return { kills, accepted };
}
