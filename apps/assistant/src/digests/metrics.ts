import { Counter, Gauge, type Registry } from 'prom-client';
import type { Hit } from './changes.ts';

/** Counts what saved searches find and tell, and shows how far behind the feed is. */
export type DigestMetrics = ReturnType<typeof createDigestMetrics>;

/** The metrics of saved searches and their digests, in a registry. See {@link DigestMetrics}. */
export function createDigestMetrics(registry: Registry) {
  const registers = [registry];
  // Since when the feed has not been read to its end; undefined in a process that does not read it.
  let caughtUpAt: Date | undefined;
  const searches = new Gauge({
    name: 'assistant_saved_searches',
    help: 'Saved searches that are not paused, in the process that reads the feed of changes; 0 in the others.',
    registers,
  });
  const hits = new Counter({
    name: 'assistant_saved_search_hits_total',
    help: 'Listings that a saved search found for the first time, "new" or "cheaper".',
    labelNames: ['kind'],
    registers,
  });
  const digests = new Counter({
    name: 'assistant_digests_total',
    help: 'Digests that were written into sessions.',
    registers,
  });
  const told = new Counter({
    name: 'assistant_digest_listings_total',
    help: 'Listings that digests told of, those that they only counted included.',
    registers,
  });
  const failures = new Counter({
    name: 'assistant_feed_failures_total',
    help: 'Readings of the feed of changes that ended with an error.',
    registers,
  });
  const lag = new Gauge({
    name: 'assistant_feed_lag_seconds',
    help: "Time since the collector's feed of changes was last read to its end, in the process that reads it; 0 in the others.",
    registers,
    collect: () => {
      lag.set(
        caughtUpAt === undefined ? 0 : Math.max(0, (Date.now() - caughtUpAt.getTime()) / 1000),
      );
    },
  });
  return {
    countHits(counts: Record<Hit['kind'], number>): void {
      hits.inc({ kind: 'new' }, counts.new);
      hits.inc({ kind: 'cheaper' }, counts.cheaper);
    },
    countDigest(listings: number): void {
      digests.inc();
      told.inc(listings);
    },
    countFailure: (): void => failures.inc(),
    noteCaughtUp(time: Date | undefined): void {
      caughtUpAt = time;
    },
    noteSearches: (count: number): void => searches.set(count),
  };
}
