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
import { openFolder, until, getRepetitions } from '@oselya/testing';
import type { Kysely } from 'kysely';
import type { Payload } from '../../src/ingest/payload.ts';
import type { Tables } from '../../src/tables.ts';
import { DIMENSIONS, hasImage, store } from '../support/pipeline.ts';
import { countUnfinished, createRandom } from './load.ts';
import { STATEMENTS, startProxy, type FaultPoint } from './proxy.ts';
import type { WorkerSettings } from './worker-process.ts';

export const random = createRandom(20_260_704);

/** Kind of model request. */
type Operation = 'extraction' | 'description' | 'embedding';

type ModelCallPoint = { operation: Operation; when: 'before' | 'after' };

const DESCRIPTION = { description: 'Кухня.', room_type: 'kitchen', quality: 'good' };
const REJECTION = { ...LISTING, is_listing: false, reason: 'It is about repairs of telephones.' };
const constantHandler = createConstantHandler({ createVector: createConstantVector(DIMENSIONS) });

/**
 * Starts a model server that reads listings, rejects phone repairs, describes images and embeds.
 * @param killPoint Point before or after a response to an operation, at which `onReached` is called.
 */
export async function startAnsweringServer(killPoint?: ModelCallPoint & { onReached: () => void }) {
  const state = { requestCount: 0 };
  const server = await startModelServer((request) => {
    state.requestCount += 1;
    const answer = createAnswer(request);
    if (killPoint === undefined || getOperation(request) !== killPoint.operation) return answer;
    if (killPoint.when === 'before') {
      killPoint.onReached();
      return 'silence';
    }
    return {
      write(response: ServerResponse) {
        response.writeHead(200, { 'content-type': 'application/json' });
        response.end(JSON.stringify(answer.body), killPoint.onReached);
      },
    };
  });
  return { ...server, state };
}

function getOperation(request: ReceivedRequest): Operation {
  if (request.path.endsWith('/embeddings')) return 'embedding';
  return hasImage(request) ? 'description' : 'extraction';
}

function createAnswer(request: ReceivedRequest): { body: unknown } {
  const operation = getOperation(request);
  const isRepair = request.text.includes('Ремонтуємо');
  let answer = constantHandler(request);
  if (operation === 'description') answer = createCompletion(JSON.stringify(DESCRIPTION));
  if (operation === 'extraction' && isRepair) answer = createCompletion(JSON.stringify(REJECTION));
  assert.ok(typeof answer === 'object' && 'body' in answer);
  return { body: answer.body };
}

/** Number of payloads between two changes of images. */
const PAYLOADS_PER_IMAGE_CHANGE = 40;

/** Creates a payload of one of twelve listings, with one of three prices. Some payloads are not listings. */
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

/** Shared compile cache that speeds up worker startup. */
const compileCache = await openFolder();

export function startWorkerProcess(settings: WorkerSettings) {
  const script = join(import.meta.dirname, 'worker-process.ts');
  const env = { ...process.env, NODE_COMPILE_CACHE: compileCache };
  const child = fork(script, [JSON.stringify(settings)], { env });
  return { child, started: once(child, 'message'), ended: once(child, 'exit') };
}

const PARALLEL_WORKERS = 3;
/** Number of kills at random times. */
const RANDOM_KILL_COUNT = getRepetitions({ soak: 50, ci: 1 });
/** Maximum time that a worker runs before it is killed at a random time. */
const MAX_WORK_MS = 400;
const SIDE_COUNT = getRepetitions({ soak: 2, ci: 1 });
/** Time limit for a worker to reach its kill point. */
const LIMIT_MS = 60_000;

/** Returns both sides of a point or, in CI, one side, which alternates with the index. */
const selectSides = (index: number) =>
  (['before', 'after', 'before'] as const).slice(index % 2, (index % 2) + SIDE_COUNT);

/** Kill points at each SQL statement of the stages and the queue. */
export const STATEMENT_KILL_POINTS = Object.entries(STATEMENTS).flatMap(
  ([name, statement], index) => selectSides(index).map((when) => ({ name, statement, when })),
);

/** Kill points at each kind of model call. */
const MODEL_KILL_POINTS = (['extraction', 'description', 'embedding'] as const).flatMap(
  (operation, index) => selectSides(index).map((when) => ({ operation, when })),
);

export const KILL_COUNT =
  STATEMENT_KILL_POINTS.length + MODEL_KILL_POINTS.length + RANDOM_KILL_COUNT;

/**
 * Kills workers before and after SQL statements and model calls, and at random times, while other workers run.
 * @returns The number of kills, and the IDs of the payloads that were accepted in the meantime.
 */
export async function killWorkers(
  db: Kysely<Tables>,
  options: { url: string; folder: string; modelUrl: string; imageHost: string },
): Promise<{ killCount: number; acceptedIds: number[] }> {
  const { imageHost, ...settings } = options;
  // The last entries run first. These are the model calls, because only the first payloads need an embedding.
  const killPoints: (ModelCallPoint | (FaultPoint & { name: string }) | 'random')[] = [
    ...Array.from({ length: RANDOM_KILL_COUNT }, () => 'random' as const),
    ...STATEMENT_KILL_POINTS,
    ...MODEL_KILL_POINTS,
  ];
  const acceptedIds: number[] = [];
  let killCount = 0;
  const stopController = new AbortController();

  async function sendPayloads(): Promise<void> {
    while (!stopController.signal.aborted) {
      if ((await countUnfinished(db)) < 12) {
        for (let index = 0; index < 6; index += 1) {
          acceptedIds.push(
            await store(db, createListingPayload(acceptedIds.length + 1, imageHost)),
          );
        }
      }
      await sleep(20);
    }
  }

  async function killAt(killPoint: (typeof killPoints)[number]): Promise<void> {
    let worker: ReturnType<typeof startWorkerProcess> | undefined;
    const onReached = () => void worker?.child.kill('SIGKILL');
    await using resources = new AsyncDisposableStack();
    let { url, modelUrl } = settings;
    if (killPoint !== 'random' && 'statement' in killPoint) {
      ({ url } = resources.use(await startProxy(new URL(url), { ...killPoint, onReached })));
    } else if (killPoint !== 'random') {
      modelUrl = resources.use(await startAnsweringServer({ ...killPoint, onReached })).url;
    }
    worker = startWorkerProcess({ ...settings, url, modelUrl });
    if (killPoint === 'random') {
      await worker.started;
      await sleep(random() * MAX_WORK_MS);
      onReached();
    }
    const killTimer = setTimeout(() => worker?.child.kill('SIGTERM'), LIMIT_MS);
    const [, signal] = (await worker.ended) as [number | null, string | null];
    clearTimeout(killTimer);
    assert.equal(signal, 'SIGKILL', `no worker reached ${JSON.stringify(killPoint)}`);
    killCount += 1;
  }

  async function killRepeatedly(): Promise<void> {
    try {
      for (let killPoint = killPoints.pop(); killPoint !== undefined; killPoint = killPoints.pop())
        await killAt(killPoint);
    } catch (error) {
      killPoints.length = 0;
      throw error;
    }
  }

  const killerLoops = Array.from({ length: PARALLEL_WORKERS }, killRepeatedly);
  const settledLoops = Promise.allSettled(killerLoops).finally(() => stopController.abort());
  await Promise.all([sendPayloads(), settledLoops]);
  await Promise.all(killerLoops);
  // A worker without faults completes the remaining jobs.
  const lastWorker = startWorkerProcess(settings);
  await until('the queue to be empty', async () => (await countUnfinished(db)) === 0);
  lastWorker.child.kill('SIGKILL');
  await lastWorker.ended;
  return { killCount, acceptedIds };
}
