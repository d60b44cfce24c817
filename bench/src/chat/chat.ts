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
import { judge, type Idle, formatReport, type Sample, type Setup } from './report.ts';
import type { ModelServer } from './servers/model.ts';

const FULL: Setup = { sockets: 1000, streams: 100, tokensPerSecond: 50 };
const SMOKE: Setup = { sockets: 20, streams: 5, tokensPerSecond: 50 };

/** Duration of the warm-up as a share of the measurement. */
const WARM_UP_SHARE = 0.4;

const CLIENTS = new URL('clients.ts', import.meta.url);
const MODEL = new URL('servers/model.ts', import.meta.url);

type Running = { server: RemoteProcess<Server<never>>; clients: RemoteProcess<Clients> };

/**
 * Measures the latency of tokens in concurrent answers over sockets and the memory of an idle socket, and
 * counts the stored messages.
 */
export async function measureChat(context: Context): Promise<Report> {
  const { options, results, signal, logProgress } = context;
  const setup = options.smoke ? SMOKE : FULL;
  await using scope = new AsyncDisposableStack();
  const model = scope.use(startProcess<ModelServer>(MODEL, signal));
  const modelUrl = await model.call('start');
  const failures: string[] = [];
  const idle: Idle[] = [];
  const running = new Map<VariantName, Running>();
  for (const variant of VARIANTS) {
    logProgress(`${setup.sockets} sockets are opened: ${variant}`);
    const started = await startVariant(variant, scope, { ...setup, ...context, modelUrl });
    const clients = scope.use(startProcess<Clients>(CLIENTS, signal));
    running.set(variant, { server: started.server, clients });
    const idleSocket = { variant, ...(await measureIdle(started, clients)) };
    idle.push(idleSocket);
    await results.keep('idle', idleSocket);
    logProgress(`${variant}: ${(idleSocket.rss / 1000).toFixed(1)} kB for each idle socket`);
  }

  const samples: Sample[] = [];
  const pace = createPace(setup, options.seconds);
  for (let round = 1; round <= options.rounds; round += 1) {
    for (const variant of orderForRound(round, VARIANTS)) {
      const pair = running.get(variant);
      if (pair === undefined) continue;
      // An idle process has released memory and compiled code.
      await model.call('setPace', createPace(setup, options.seconds * WARM_UP_SHARE));
      await pair.clients.call('ask', { streams: setup.streams, withinMs: 0 });
      await model.call('setPace', pace);
      for (const arrival of ARRIVALS) {
        const measured = await measure(pair, { streams: setup.streams, arrival });
        const sample = { variant, arrival, round, ...measured };
        samples.push(sample);
        const written = setup.streams * pace.tokens;
        if (sample.tokens !== written) {
          failures.push(`${variant}: ${sample.tokens} of ${written} tokens came`);
        }
        failures.push(...sample.failures.map((failure) => `${variant}: ${failure}`));
        await results.keep('sample', sample);
        logProgress(`round ${round}: ${variant}, ${arrival}: p99 ${sample.p99.toFixed(1)} ms`);
      }
    }
  }

  const assistant = running.get('assistant');
  const storage = (await assistant?.clients.call('checkStored')) ?? { stored: 0, failures: [] };
  await results.keep('stored', storage);
  failures.push(...storage.failures);
  const questions = options.rounds * (ARRIVALS.length + 1);
  const said = 2 * setup.streams * questions;
  if (storage.stored !== said) failures.push(`${storage.stored} of ${said} messages are stored`);
  for (const { clients } of running.values()) await clients.call('close');

  const goals = judge({ samples, idle, stored: storage.stored, said, smoke: options.smoke });
  for (const goal of goals) await results.keep('goal', goal);
  const text = formatReport({ setup, options, samples, idle, goals, stored: storage.stored, said });
  return { text, failures: [...new Set(failures)].slice(0, 10) };
}

const createPace = ({ tokensPerSecond }: Setup, seconds: number) => ({
  tokens: Math.ceil(tokensPerSecond * seconds),
  perSecond: tokensPerSecond,
});

/** Returns the memory of the server with all sockets open, minus the memory before. */
async function measureIdle(
  { server, endpoints }: Awaited<ReturnType<typeof startVariant>>,
  clients: RemoteProcess<Clients>,
): Promise<Omit<Idle, 'variant'>> {
  // Memory that only the first sockets allocate does not count.
  const [warmUp, measured] = [endpoints.slice(0, 10), endpoints.slice(10)];
  await clients.call('open', warmUp);
  const before = await server.call('memory');
  await clients.call('open', measured);
  const after = await server.call('memory');
  const each = (of: 'rss' | 'heap') => (after[of] - before[of]) / measured.length;
  return { sockets: endpoints.length, rss: each('rss'), heap: each('heap') };
}

async function measure(
  { server, clients }: Running,
  { streams, arrival }: { streams: number; arrival: Arrival },
) {
  const cpuBefore = await server.call('cpuMs');
  const begun = performance.now();
  const answers = await clients.call('ask', { streams, withinMs: withinMs[arrival] });
  const seconds = (performance.now() - begun) / 1000;
  return { ...answers, seconds, cpuMs: (await server.call('cpuMs')) - cpuBefore };
}
