import { Counter, Gauge, type Registry } from 'prom-client';

/** Metrics of saved searches and their digests. */
export type DigestMetrics = ReturnType<typeof createDigestMetrics>;

/** Creates the metrics of saved searches and their digests in a registry. */
export function createDigestMetrics(registry: Registry) {
  const registers = [registry];
  // Undefined in processes that do not read the feed.
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
  const reported = new Counter({
    name: 'assistant_digest_listings_total',
    help: 'Listings that digests reported, including those that they only counted.',
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
      const ms = caughtUpAt === undefined ? 0 : Date.now() - caughtUpAt.getTime();
      lag.set(Math.max(0, ms / 1000));
    },
  });
  return {
    countHit: (kind: 'new' | 'cheaper'): void => hits.inc({ kind }),
    countDigest(listings: number): void {
      digests.inc();
      reported.inc(listings);
    },
    countFailure: (): void => failures.inc(),
    noteCaughtUp(time: Date | undefined): void {
      caughtUpAt = time;
    },
    noteSearches: (count: number): void => searches.set(count),
  };
}
