import { Counter, Gauge, type Registry } from 'prom-client';

export type DigestMetrics = ReturnType<typeof createDigestMetrics>;

/** Creates and registers the saved search and digest metrics. */
export function createDigestMetrics(registry: Registry) {
  const registers = [registry];
  // Undefined in processes that do not read the feed.
  let caughtUpAt: Date | undefined;
  const createCounter = (name: string, help: string, labelNames: string[] = []) =>
    new Counter({ name, help, labelNames, registers });
  const hits = createCounter(
    'assistant_saved_search_hits_total',
    'Listings that a saved search found for the first time, "new" or "cheaper".',
    ['kind'],
  );
  const digests = createCounter(
    'assistant_digests_total',
    'Digests that were written into sessions.',
  );
  const reportedListings = createCounter(
    'assistant_digest_listings_total',
    'Listings that digests reported, including those that they only counted.',
  );
  const failures = createCounter(
    'assistant_feed_failures_total',
    'Failed reads of the change feed.',
  );
  const searches = new Gauge({
    name: 'assistant_saved_searches',
    help: 'Saved searches that are not paused, in the process that reads the change feed; 0 in the others.',
    registers,
  });
  const lagGauge: Gauge = new Gauge({
    name: 'assistant_feed_lag_seconds',
    help: "Time since the collector's change feed was last read to its end, in the process that reads it; 0 in the others.",
    registers,
    collect() {
      const ms = caughtUpAt === undefined ? 0 : Date.now() - caughtUpAt.getTime();
      lagGauge.set(Math.max(0, ms / 1000));
    },
  });
  return {
    countHit: (kind: 'new' | 'cheaper'): void => hits.inc({ kind }),
    countDigest(listings: number): void {
      digests.inc();
      reportedListings.inc(listings);
    },
    countFailure: (): void => failures.inc(),
    setCaughtUpAt(time: Date | undefined): void {
      caughtUpAt = time;
    },
    setActiveSearchCount: (count: number): void => searches.set(count),
  };
}
