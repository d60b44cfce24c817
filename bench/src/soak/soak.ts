import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { BenchError } from '../bench-error.ts';
import type { Context, Report } from '../suite.ts';
import type { ImageHost } from '../images/servers/host.ts';
import { type RemoteProcess, startProcess } from '../process/parent.ts';
import { compare } from './compare.ts';
import type { Load, LoadGenerator } from './load.ts';
import { formatReport, evaluateGrowth } from './report.ts';
import { type Sample, takeSample, openDatabaseMonitor, type DatabaseMonitor } from './sample.ts';
import type { CollectorProcess } from './servers/collector.ts';

const DIMENSIONS = 384;

/** Load that two cores sustain, so that the queue is short at the end of the run. */
const FULL = { minutes: 30, listings: 5000, ingestRate: 30, searchRate: 2, sampleSeconds: 5 };
const SMOKE = { minutes: 0.1, listings: 60, ingestRate: 30, searchRate: 5, sampleSeconds: 0.5 };
/** Warm-up, during which tables reach their usual size and code is compiled. */
const WARM_UP = { share: 0.1, maxSeconds: 180 };
/** Retention of completed payloads. It is short, so that a run deletes about as many payloads as it accepts. */
const RETENTION_SECONDS = 120;
/** Number of samples between two removals of old payloads. */
const REMOVAL_INTERVAL = 6;
/** Time limit for the remaining jobs. */
const DRAIN_TIMEOUT_MS = 600_000;

/** Limit in requests per minute that the load never reaches. */
const UNREACHABLE_RATE_LIMIT = '1000000';

const COLLECTOR_MODULE = new URL('servers/collector.ts', import.meta.url);
const LOAD_MODULE = new URL('load.ts', import.meta.url);
const HOST_MODULE = new URL('../images/servers/host.ts', import.meta.url);

type SoakEnvironment = {
  collector: RemoteProcess<CollectorProcess>;
  load: RemoteProcess<LoadGenerator>;
  monitor: DatabaseMonitor;
  url: string;
  /** URL of the image host. */
  imageHost: string;
};

/**
 * Measures a collector under a constant load of payloads and searches. Compares the end of the run with the beginning
 * to find slowdowns and leaks.
 */
export async function measureSoak(context: Context): Promise<Report> {
  const { options, results, logProgress } = context;
  const settings = options.isSmokeRun ? SMOKE : FULL;
  const seconds = (options.minutes ?? settings.minutes) * 60;
  await using scope = new AsyncDisposableStack();
  const environment = await open(scope, context);
  const { load, monitor } = environment;
  const { url, imageHost } = environment;
  const plan: Load = { ...settings, url, imageHost, dimensions: DIMENSIONS };
  logProgress(`sending ${settings.listings} listings`);
  await load.call('fill', plan);
  await waitUntilDrained(monitor);
  const fillOutcome = await load.call('take');
  await load.call('start', plan);
  const { samples, removedCount, unexpectedResponses } = await watch(environment, context, {
    seconds,
    sampleSeconds: settings.sampleSeconds,
  });
  const endOutcome = await load.call('stop');
  await waitUntilDrained(monitor);

  const { sentCount } = endOutcome;
  const failures = [
    ...[
      ...fillOutcome.unexpectedResponses,
      ...unexpectedResponses,
      ...endOutcome.unexpectedResponses,
    ].slice(0, 5),
    ...(await findCountMismatches(monitor, { sentCount, removedCount })),
  ];
  const comparisons = compare(samples, seconds);
  const goals = options.isSmokeRun ? [] : evaluateGrowth(comparisons);
  for (const comparison of comparisons) await results.keep('comparison', comparison);
  for (const goal of goals) await results.keep('goal', goal);
  const counts = { sentCount, removedCount };
  const { isSmokeRun } = options;
  const text = formatReport({ ...settings, ...counts, seconds, isSmokeRun, comparisons, goals });
  return { text, failures };
}

async function open(
  scope: AsyncDisposableStack,
  { databases, signal }: Context,
): Promise<SoakEnvironment> {
  const database = scope.use(await databases.createDatabase());
  const folder = await mkdtemp(join(tmpdir(), 'oselya-bench-'));
  scope.defer(() => rm(folder, { recursive: true, force: true }));
  const collector = scope.use(startProcess<CollectorProcess>(COLLECTOR_MODULE, signal));
  const load = scope.use(startProcess<LoadGenerator>(LOAD_MODULE, signal));
  const host = scope.use(startProcess<ImageHost>(HOST_MODULE, signal));
  const imageHost = await host.call('start');
  const url = await collector.call('start', {
    DATABASE_URL: database.url,
    DATA_DIR: folder,
    EMBEDDING_DIMENSIONS: String(DIMENSIONS),
    // The collector still counts requests against these limits, so the load includes the cost of counting.
    COLLECTOR_INGEST_PER_MINUTE: UNREACHABLE_RATE_LIMIT,
    COLLECTOR_FULLTEXT_PER_MINUTE: UNREACHABLE_RATE_LIMIT,
    SSRF_ALLOW: '127.0.0.1',
    LOG_LEVEL: 'silent',
    MIN_FREE_DISK_MB: '0',
  });
  scope.defer(() => collector.call('stop'));
  const monitor = scope.use(await openDatabaseMonitor(database.url));
  return { collector, load, monitor, url, imageHost };
}

/** Takes samples and deletes old payloads until the time has elapsed. */
async function watch(
  { collector, load, monitor }: SoakEnvironment,
  { results, signal, logProgress }: Context,
  { seconds, sampleSeconds }: { seconds: number; sampleSeconds: number },
): Promise<{ samples: Sample[]; removedCount: number; unexpectedResponses: string[] }> {
  const samples: Sample[] = [];
  const unexpectedResponses: string[] = [];
  let removedCount = 0;
  const warmUp = Math.min(seconds * WARM_UP.share, WARM_UP.maxSeconds);
  const startedAt = performance.now();
  for (let index = 1; index * sampleSeconds <= warmUp + seconds; index += 1) {
    const waitMs = startedAt + index * sampleSeconds * 1000 - performance.now();
    await sleep(Math.max(0, waitMs), undefined, { signal });
    if (index % REMOVAL_INTERVAL === 0) {
      removedCount += await monitor.deleteOldPayloads(RETENTION_SECONDS);
    }
    const outcome = await load.call('take');
    unexpectedResponses.push(...outcome.unexpectedResponses);
    const elapsed = (performance.now() - startedAt) / 1000 - warmUp;
    const sample = await takeSample(elapsed, { outcome, collector, monitor });
    await results.keep('sample', sample);
    if (elapsed > 0) samples.push(sample);
    if (index % REMOVAL_INTERVAL === 0) {
      const { claimMs, heapMiB, tables } = sample;
      logProgress(
        `${Math.round(elapsed)} s: claim ${claimMs.toFixed(1)} ms, heap ${heapMiB.toFixed(1)} MiB, ` +
          `${tables.raw_data.live} payloads, ${tables.raw_data.dead} dead`,
      );
    }
  }
  return { samples, removedCount, unexpectedResponses };
}

async function waitUntilDrained(monitor: DatabaseMonitor): Promise<void> {
  const deadline = Date.now() + DRAIN_TIMEOUT_MS;
  while (Date.now() < deadline) {
    if ((await monitor.counts()).openCount === 0) return;
    await sleep(100);
  }
  throw new BenchError(
    `the collector did not process all payloads within ${DRAIN_TIMEOUT_MS / 60_000} minutes`,
  );
}

/** Returns failures for lost payloads, incomplete jobs and outdated listings. */
async function findCountMismatches(
  monitor: DatabaseMonitor,
  { sentCount, removedCount }: { sentCount: number; removedCount: number },
): Promise<string[]> {
  const { storedCount, completedCount, outdatedCount } = await monitor.counts();
  return [
    ...(storedCount + removedCount === sentCount
      ? []
      : [`${sentCount} payloads sent, ${storedCount} stored, ${removedCount} removed`]),
    ...(completedCount === storedCount
      ? []
      : [`${storedCount - completedCount} payloads did not complete`]),
    ...(outdatedCount === 0
      ? []
      : [`${outdatedCount} listings do not come from their newest payload`]),
  ];
}
