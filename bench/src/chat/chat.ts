import { orderForRound } from '../load/rounds.ts';
import { type RemoteProcess, startProcess } from '../process/parent.ts';
import type { Server } from '../process/server.ts';
import type { Context, Report } from '../suite.ts';
import {
  type Arrival,
  ARRIVALS,
  withinMs,
  startVariant,
  VARIANTS,
  type VariantName,
} from './variants.ts';
import type { Clients } from './clients.ts';
import { evaluateGoals, type Idle, formatReport, type Sample, type Setup } from './report.ts';
import type { ModelServer } from './servers/model.ts';

const FULL: Setup = { sockets: 1000, streams: 100, tokensPerSecond: 50 };
const SMOKE: Setup = { sockets: 20, streams: 5, tokensPerSecond: 50 };

/** Duration of the warm-up as a share of the measurement. */
const WARM_UP_SHARE = 0.4;

const CLIENTS_MODULE = new URL('clients.ts', import.meta.url);
const MODEL_MODULE = new URL('servers/model.ts', import.meta.url);

type Running = { server: RemoteProcess<Server<never>>; clients: RemoteProcess<Clients> };

/**
 * Measures the token latency of concurrent answers and the memory of an idle socket, and counts the stored messages.
 */
export async function measureChat(context: Context): Promise<Report> {
  const { options, results, signal, logProgress } = context;
  const setup = options.isSmokeRun ? SMOKE : FULL;
  await using scope = new AsyncDisposableStack();
  const model = scope.use(startProcess<ModelServer>(MODEL_MODULE, signal));
  const modelUrl = await model.call('start');
  const failures: string[] = [];
  const idle: Idle[] = [];
  const runningVariants = new Map<VariantName, Running>();
  for (const variant of VARIANTS) {
    logProgress(`opening ${setup.sockets} sockets: ${variant}`);
    const runningVariant = await startVariant(variant, scope, { ...setup, ...context, modelUrl });
    const clients = scope.use(startProcess<Clients>(CLIENTS_MODULE, signal));
    runningVariants.set(variant, { server: runningVariant.server, clients });
    const idleSocket = { variant, ...(await measureIdle(runningVariant, clients)) };
    idle.push(idleSocket);
    await results.keep('idle', idleSocket);
    logProgress(`${variant}: ${(idleSocket.rss / 1000).toFixed(1)} kB per idle socket`);
  }

  const samples: Sample[] = [];
  const pace = createPace(setup, options.seconds);
  for (let round = 1; round <= options.rounds; round += 1) {
    for (const variant of orderForRound(round, VARIANTS)) {
      const processes = runningVariants.get(variant);
      if (processes === undefined) continue;
      // Warms up the process, because an idle process releases memory and compiled code.
      await model.call('setPace', createPace(setup, options.seconds * WARM_UP_SHARE));
      await processes.clients.call('ask', { streams: setup.streams, withinMs: 0 });
      await model.call('setPace', pace);
      for (const arrival of ARRIVALS) {
        const measurement = await measure(processes, { streams: setup.streams, arrival });
        const sample = { variant, arrival, round, ...measurement };
        samples.push(sample);
        const expectedTokens = setup.streams * pace.tokens;
        if (sample.tokens !== expectedTokens) {
          failures.push(`${variant}: received ${sample.tokens} of ${expectedTokens} tokens`);
        }
        failures.push(...sample.failures.map((failure) => `${variant}: ${failure}`));
        await results.keep('sample', sample);
        logProgress(`round ${round}: ${variant}, ${arrival}: p99 ${sample.p99.toFixed(1)} ms`);
      }
    }
  }

  const assistant = runningVariants.get('assistant');
  const storage = (await assistant?.clients.call('checkStored')) ?? {
    storedCount: 0,
    failures: [],
  };
  await results.keep('stored', storage);
  const { storedCount } = storage;
  failures.push(...storage.failures);
  const questions = options.rounds * (ARRIVALS.length + 1);
  const expectedCount = 2 * setup.streams * questions;
  if (storedCount !== expectedCount) {
    failures.push(`stored ${storedCount} of ${expectedCount} messages`);
  }
  for (const { clients } of runningVariants.values()) await clients.call('close');

  const goals = evaluateGoals({
    samples,
    idle,
    storedCount,
    expectedCount,
    isSmokeRun: options.isSmokeRun,
  });
  for (const goal of goals) await results.keep('goal', goal);
  const text = formatReport({ setup, options, samples, idle, goals, storedCount, expectedCount });
  return { text, failures: [...new Set(failures)].slice(0, 10) };
}

const createPace = ({ tokensPerSecond }: Setup, seconds: number) => ({
  tokens: Math.ceil(tokensPerSecond * seconds),
  tokensPerSecond,
});

/** Returns how much the server's memory grows per open socket, in bytes. */
async function measureIdle(
  { server, endpoints }: Awaited<ReturnType<typeof startVariant>>,
  clients: RemoteProcess<Clients>,
): Promise<Omit<Idle, 'variant'>> {
  // The first sockets are excluded, because they also allocate memory that all sockets share.
  const [warmUp, measured] = [endpoints.slice(0, 10), endpoints.slice(10)];
  await clients.call('open', warmUp);
  const before = await server.call('memory');
  await clients.call('open', measured);
  const after = await server.call('memory');
  const bytesPerSocket = (kind: 'rss' | 'heap') => (after[kind] - before[kind]) / measured.length;
  return { sockets: endpoints.length, rss: bytesPerSocket('rss'), heap: bytesPerSocket('heap') };
}

async function measure(
  { server, clients }: Running,
  { streams, arrival }: { streams: number; arrival: Arrival },
) {
  const cpuBefore = await server.call('cpuMs');
  const startedAt = performance.now();
  const answers = await clients.call('ask', { streams, withinMs: withinMs[arrival] });
  const seconds = (performance.now() - startedAt) / 1000;
  return { ...answers, seconds, cpuMs: (await server.call('cpuMs')) - cpuBefore };
}
