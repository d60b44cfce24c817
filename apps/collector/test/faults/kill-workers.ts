import assert from 'node:assert/strict';
import { fork } from 'node:child_process';
import { once } from 'node:events';
import type { ServerResponse } from 'node:http';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import {
  createCompletion,
  createConstantVector,
  createConstantHandler,
  LISTING,
  type ReceivedRequest,
  startModelServer,
} from '@oselya/model/testing';
import { until } from '@oselya/testing';
import type { Kysely } from 'kysely';
import type { Payload } from '../../src/ingest/payload.ts';
import type { Tables } from '../../src/tables.ts';
import { DIMENSIONS, hasImage, store, openFolder } from '../support/pipeline.ts';
import { getRepetitions } from '../support/soak.ts';
import { countUnfinished, createRandom } from './load.ts';
import { STATEMENTS, startProxy, type StatementMoment } from './proxy.ts';
import type { WorkerSettings } from './worker-process.ts';

export const random = createRandom(20_260_704);

/** Kind of a request to the model. */
type Operation = 'reading' | 'describing' | 'embedding';

type CallMoment = { operation: Operation; when: 'before' | 'after' };

const DESCRIPTION = { description: 'Кухня.', room_type: 'kitchen', quality: 'good' };
const REJECTION = { ...LISTING, is_listing: false, reason: 'It is about repairs of telephones.' };
const handleConstantly = createConstantHandler({ vectorOf: createConstantVector(DIMENSIONS) });

/**
 * Starts a model server that reads listings, rejects phone repairs, describes images and embeds.
 * @param moment Calls `onMoment` before or after the first response to an operation.
 */
export async function startAnsweringServer(moment?: CallMoment & { onMoment: () => void }) {
  const state = { requestCount: 0 };
  const server = await startModelServer((request) => {
    state.requestCount += 1;
    const answer = createAnswer(request);
    if (moment === undefined || getOperation(request) !== moment.operation) return answer;
    if (moment.when === 'before') {
      moment.onMoment();
      return 'silence';
    }
    return {
      write(response: ServerResponse) {
        response.writeHead(200, { 'content-type': 'application/json' });
        response.end(JSON.stringify(answer.body), moment.onMoment);
      },
    };
  });
  return { ...server, state };
}

function getOperation(request: ReceivedRequest): Operation {
  if (request.path.endsWith('/embeddings')) return 'embedding';
  return hasImage(request) ? 'describing' : 'reading';
}

function createAnswer(request: ReceivedRequest): { body: unknown } {
  const operation = getOperation(request);
  const isRepair = request.text.includes('Ремонтуємо');
  let answer = handleConstantly(request);
  if (operation === 'describing') answer = createCompletion(JSON.stringify(DESCRIPTION));
  if (operation === 'reading' && isRepair) answer = createCompletion(JSON.stringify(REJECTION));
  assert.ok(typeof answer === 'object' && 'body' in answer);
  return { body: answer.body };
}

/** Number of payloads between two changes of images. */
const PAYLOADS_PER_IMAGE_CHANGE = 40;

/** Returns payloads of few listings: changed and unchanged prices, and payloads that are not listings. */
export function createListingPayload(index: number, imageHost: string): Payload {
  const listing = Math.floor(random() * 12);
  const isListing = index % 9 !== 8;
  const price = 1000 * (50 + Math.floor(random() * 3));
  const images = [
    `${listing}-${price}-${Math.floor(index / PAYLOADS_PER_IMAGE_CHANGE)}.png`,
    'missing',
    `${listing}.png`,
  ];
  return {
    source_slug: 'killed',
    external_id: `${isListing ? 'flat' : 'junk'}-${listing}`,
    description: isListing
      ? `Продам двокімнатну квартиру у Львові, ${50 + listing} м², 3 поверх з 5.`
      : 'Ремонтуємо телефони та ноутбуки, швидко і недорого. Виїзд майстра.',
    ...(isListing && { price, currency: 'USD' }),
    image_urls: images.map((name) => `${imageHost}/${name}`),
  };
}

/** Compile cache of the workers, which start faster with it. */
const compileCache = await openFolder();

/** Starts a worker process. */
export function startWorkerProcess(settings: WorkerSettings) {
  const script = join(import.meta.dirname, 'worker-process.ts');
  const env = { ...process.env, NODE_COMPILE_CACHE: compileCache };
  const child = fork(script, [JSON.stringify(settings)], { env });
  return { child, started: once(child, 'message'), ended: once(child, 'exit') };
}

const PARALLEL_WORKERS = 3;
/** Number of kills at random moments. */
const RANDOM_KILLS = getRepetitions({ soak: 50, ci: 2 });
const MAX_WORK_MS = 400;
const SIDE_COUNT = getRepetitions({ soak: 2, ci: 1 });
/** Time limit for a worker to reach its moment. */
const LIMIT_MS = 60_000;

/** Returns both sides of a moment, or one alternating side in CI. */
const selectSides = (index: number) =>
  (['before', 'after', 'before'] as const).slice(index % 2, (index % 2) + SIDE_COUNT);

/** Moments of the statements of the stages and the queue. */
export const STATEMENT_MOMENTS = Object.entries(STATEMENTS).flatMap(([name, statement], index) =>
  selectSides(index).map((when) => ({ name, statement, when })),
);

/** Moments of calls to the model. */
const CALL_MOMENTS = (['reading', 'describing', 'embedding'] as const).flatMap((operation, index) =>
  selectSides(index).map((when) => ({ operation, when })),
);

export const KILL_COUNT = STATEMENT_MOMENTS.length + CALL_MOMENTS.length + RANDOM_KILLS;

/**
 * Kills workers at the statements of each stage, at calls to the model, and at random moments,
 * while other workers run.
 * @returns The number of kills, and the IDs of the payloads accepted meanwhile.
 */
export async function killWorkers(
  db: Kysely<Tables>,
  options: { url: string; folder: string; modelUrl: string; imageHost: string },
): Promise<{ kills: number; accepted: number[] }> {
  const { imageHost, ...settings } = options;
  // `pop` takes calls to the model first: only the first payloads need an embedding.
  const moments: (CallMoment | (StatementMoment & { name: string }) | 'random')[] = [
    ...Array.from({ length: RANDOM_KILLS }, () => 'random' as const),
    ...STATEMENT_MOMENTS,
    ...CALL_MOMENTS,
  ];
  const accepted: number[] = [];
  let kills = 0;
  const stopController = new AbortController();

  async function sendPayloads(): Promise<void> {
    while (!stopController.signal.aborted) {
      if ((await countUnfinished(db)) < 12) {
        for (let index = 0; index < 6; index += 1) {
          accepted.push(await store(db, createListingPayload(accepted.length + 1, imageHost)));
        }
      }
      await sleep(20);
    }
  }

  async function killAt(moment: (typeof moments)[number]): Promise<void> {
    let worker: ReturnType<typeof startWorkerProcess> | undefined;
    const onMoment = () => void worker?.child.kill('SIGKILL');
    await using resources = new AsyncDisposableStack();
    let { url, modelUrl } = settings;
    if (moment !== 'random' && 'statement' in moment) {
      ({ url } = resources.use(await startProxy(new URL(url), { ...moment, onMoment })));
    } else if (moment !== 'random') {
      modelUrl = resources.use(await startAnsweringServer({ ...moment, onMoment })).url;
    }
    worker = startWorkerProcess({ ...settings, url, modelUrl });
    if (moment === 'random') {
      await worker.started;
      await sleep(random() * MAX_WORK_MS);
      onMoment();
    }
    const killTimer = setTimeout(() => worker?.child.kill('SIGTERM'), LIMIT_MS);
    const [, signal] = (await worker.ended) as [number | null, string | null];
    clearTimeout(killTimer);
    assert.equal(signal, 'SIGKILL', `no worker reached ${JSON.stringify(moment)}`);
    kills += 1;
  }

  async function killRepeatedly(): Promise<void> {
    try {
      for (let moment = moments.pop(); moment !== undefined; moment = moments.pop())
        await killAt(moment);
    } catch (error) {
      moments.length = 0;
      throw error;
    }
  }

  const killers = Array.from({ length: PARALLEL_WORKERS }, killRepeatedly);
  const killing = Promise.allSettled(killers).finally(() => stopController.abort());
  await Promise.all([sendPayloads(), killing]);
  await Promise.all(killers);
  // A worker without faults completes the remaining jobs.
  const lastWorker = startWorkerProcess(settings);
  await until('the queue to be empty', async () => (await countUnfinished(db)) === 0);
  lastWorker.child.kill('SIGKILL');
  await lastWorker.ended;
  return { kills, accepted };
}
