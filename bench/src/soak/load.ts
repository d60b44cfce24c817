import { performance } from 'node:perf_hooks';
import { setTimeout as sleep } from 'node:timers/promises';
import { serveMethods } from '../process/child.ts';
import {
  createBody,
  RANKED_KINDS,
  type RankedKind,
  createQuestions,
  type Question,
} from '../search/questions.ts';
import { createPayloadForRound } from './payload.ts';

export type Load = {
  url: string;
  /** URL of the image host. */
  imageHost: string;
  listings: number;
  /** Number of payloads per second. */
  ingestRate: number;
  /** Number of searches of each kind per second. */
  searchRate: number;
  dimensions: number;
};

/** Results since the last `take`. */
export type Outcome = {
  accepted: number;
  /** Latencies in milliseconds. */
  ingestMs: number[];
  searchMs: Record<RankedKind, number[]>;
  /** Responses with an unexpected status. */
  unexpectedResponses: string[];
};

const methods = { fill, start, take, stop };
export type LoadGenerator = typeof methods;
serveMethods(methods);

const FILL_CONNECTIONS = 16;
const QUESTIONS = 480;
const SEED = 20_260_104;

let outcome = createOutcome();
/** Number of sent payloads; each round sends each listing once. */
let sentCount = 0;
let currentRun: Promise<unknown> = Promise.resolve();
const stopSignal = new AbortController();

/** Sends each listing once, without a rate limit. */
async function fill(load: Load): Promise<void> {
  const work = async () => {
    while (sentCount < load.listings) await ingest(load);
  };
  await Promise.all(Array.from({ length: FILL_CONNECTIONS }, work));
}

/** Sends payloads and searches at a constant rate until `stop`, independent of response times. */
function start(load: Load): void {
  const searches = RANKED_KINDS.map((kind) => {
    const { dimensions } = load;
    const questions = createQuestions(kind, { count: QUESTIONS, seed: SEED, dimensions });
    let searchCount = 0;
    return repeatAtRate(load.searchRate, () =>
      search(load, questions[(searchCount += 1) % QUESTIONS]),
    );
  });
  currentRun = Promise.all([repeatAtRate(load.ingestRate, () => ingest(load)), ...searches]);
}

function take(): Outcome {
  const previousOutcome = outcome;
  outcome = createOutcome();
  return previousOutcome;
}

/** Stops after the last response. Returns the results since the last `take`, and the number of sent payloads. */
async function stop(): Promise<Outcome & { sentCount: number }> {
  stopSignal.abort();
  await currentRun;
  return { ...take(), sentCount };
}

async function ingest({ url, listings, imageHost }: Load): Promise<void> {
  const index = sentCount % listings;
  const round = Math.floor(sentCount / listings);
  sentCount += 1;
  const durationMs = await post(
    `${url}/api/v1/ingest`,
    createPayloadForRound(index, round, imageHost),
    202,
  );
  if (durationMs === undefined) return;
  outcome.accepted += 1;
  outcome.ingestMs.push(durationMs);
}

async function search(
  { url }: Load,
  question: (Question & { kind: RankedKind }) | undefined,
): Promise<void> {
  if (question === undefined) return;
  const { kind } = question;
  const durationMs = await post(`${url}/api/v1/search/${kind}`, createBody(question), 200);
  if (durationMs !== undefined) outcome.searchMs[kind].push(durationMs);
}

/** Returns the response time in milliseconds; undefined for an unexpected response, which is recorded. */
async function post(url: string, body: object, expected: number): Promise<number | undefined> {
  const startedAt = performance.now();
  const response = await fetch(url, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify(body),
  });
  const text = await response.text();
  if (response.status === expected) return performance.now() - startedAt;
  outcome.unexpectedResponses.push(`${url}: ${response.status} ${text.slice(0, 200)}`);
  return undefined;
}

/** Calls `work` at a fixed rate until `stop`. Late calls are not skipped. */
async function repeatAtRate(rate: number, work: () => Promise<void>): Promise<void> {
  const startedAt = performance.now();
  const pendingRequests = new Set<Promise<void>>();
  for (let index = 0; !stopSignal.signal.aborted; index += 1) {
    const waitMs = startedAt + (index * 1000) / rate - performance.now();
    if (waitMs > 0) await sleep(waitMs);
    const run = work().finally(() => pendingRequests.delete(run));
    pendingRequests.add(run);
  }
  await Promise.all(pendingRequests);
}

function createOutcome(): Outcome {
  const searchMs = { fulltext: [], similar: [], hybrid: [] };
  return { accepted: 0, ingestMs: [], searchMs, unexpectedResponses: [] };
}
