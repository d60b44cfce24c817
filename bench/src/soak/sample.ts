import type { RemoteProcess } from '../process/parent.ts';
import { KINDS, type Kind } from '../search/questions.ts';
import { percentiles } from '../statistics.ts';
import type { Outcome } from './load.ts';
import type { CollectorProcess, ProcessResources } from './servers/collector.ts';
import type { Table, TableFigures, DatabaseMonitor } from './tables.ts';

/** One look at everything; the times are of what was answered since the look before. */
export type Sample = ProcessResources & {
  /** Since the end of the warm-up. */
  seconds: number;
  claimMs: number;
  accepted: number;
  ingestP95: number;
  searchP95: Record<Kind, number>;
  tables: Record<Table, TableFigures>;
};

/** @param outcome What the load came to since the sample before. */
export async function takeSample(
  seconds: number,
  {
    outcome,
    collector,
    monitor,
  }: { outcome: Outcome; collector: RemoteProcess<CollectorProcess>; monitor: DatabaseMonitor },
): Promise<Sample> {
  const claimMs = await monitor.claimMs();
  const tables = await monitor.tables();
  const holdings = await collector.call('holdings');
  const searchP95 = Object.fromEntries(KINDS.map((kind) => [kind, p95(outcome.searchMs[kind])]));
  return {
    seconds,
    claimMs,
    accepted: outcome.accepted,
    ingestP95: p95(outcome.ingestMs),
    // Each of the kinds is among the entries.
    searchP95: searchP95 as Record<Kind, number>,
    ...holdings,
    tables,
  };
}

/** 0 where nothing was asked, which only a very short sample has. */
function p95(latencies: readonly number[]): number {
  return latencies.length === 0 ? 0 : (percentiles(latencies, [0.95])[0] ?? 0);
}
