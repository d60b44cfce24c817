import { withLease } from '@oselya/db';
import type { Logger } from '@oselya/kit';
import type { Kysely } from 'kysely';
import { repeat } from '../async/wait.ts';
import type { Config } from '../config.ts';
import type { ImageService } from '../images/image-service.ts';
import { removeOldChanges, settleChanges } from '../listing/changes.ts';
import type { Tables } from '../tables.ts';
import type { ArchiveCheck } from './archive-check.ts';
import type { RawCleanup } from './payloads.ts';

const MINUTE_MS = 60_000;
const DAY_MS = 24 * 60 * MINUTE_MS;

/** Addresses of one run of the archive check; the run's own deadline precedes it for slow sites. */
const MAX_CHECKED = 1000;

const MINUTELY = { durationMs: MINUTE_MS, everyMs: MINUTE_MS, retryMs: MINUTE_MS };
/** A run that failed is repeated soon, not a day later. */
const DAILY = { durationMs: 10 * MINUTE_MS, everyMs: DAY_MS, retryMs: 10 * MINUTE_MS };

/**
 * Starts periodic work, each kind by one process at a time: settles and removes changes of listings, and, as configured,
 * checks addresses of listings and removes old payloads and unused images.
 * @param deps.intervalMs How often it looks for work that is due.
 * @returns Closing waits for work in progress.
 */
export function startUpkeep(deps: {
  db: Kysely<Tables>;
  log: Logger;
  archiveCheck: ArchiveCheck;
  rawCleanup: RawCleanup;
  images: Pick<ImageService, 'cleanUp'>;
  config: Pick<
    Config,
    | 'COLLECTOR_ARCHIVE_CHECK_HOURS'
    | 'COLLECTOR_RAW_RETENTION_DAYS'
    | 'COLLECTOR_IMAGE_RETENTION_DAYS'
  >;
  intervalMs?: number;
}): { close: () => Promise<void> } {
  const { db, log, archiveCheck, rawCleanup, images, config, intervalMs = MINUTE_MS } = deps;
  const { COLLECTOR_ARCHIVE_CHECK_HOURS: hours, COLLECTOR_RAW_RETENTION_DAYS: days } = config;
  const { COLLECTOR_IMAGE_RETENTION_DAYS: imageDays } = config;
  const ended = new AbortController();

  function every(
    schedule: typeof MINUTELY,
    name: string,
    work: (signal: AbortSignal) => Promise<unknown>,
  ): Promise<void> {
    const { signal } = ended;
    const row = { table: 'upkeep_turns', key: { name } };
    async function run(): Promise<void> {
      await withLease(db, row, { ...schedule, signal }, async (until) => {
        await work(until);
        // Work that the shutdown cut short is not done.
        signal.throwIfAborted();
      });
    }
    const onError = (error: unknown): void => {
      if (!signal.aborted) log.warn({ err: error, work: name }, 'upkeep failed');
    };
    return repeat(intervalMs, run, { signal, onError });
  }

  async function remove(what: string, removing: Promise<number>): Promise<void> {
    const deleted = await removing;
    if (deleted > 0) log.info({ deleted }, `${what} were removed`);
  }

  const works = [
    every(MINUTELY, 'change_places', (signal) => settleChanges(db, signal)),
    every(DAILY, 'change_cleanup', (signal) =>
      remove('old changes of listings', removeOldChanges(db, signal)),
    ),
  ];
  if (hours > 0) {
    const options = { limit: MAX_CHECKED, notWithinHours: hours, minIntervalSeconds: 3600 };
    works.push(
      every(MINUTELY, 'archive_check', async (signal) => {
        const result = await archiveCheck({ ...options, signal });
        if (result.checked > 0) log.info(result, 'addresses of listings were checked');
      }),
    );
  }
  if (days > 0) {
    works.push(
      every(DAILY, 'raw_cleanup', (signal) =>
        remove('old payloads', rawCleanup({ olderThanDays: days, signal })),
      ),
    );
  }
  if (imageDays > 0) {
    works.push(
      every(DAILY, 'image_cleanup', (signal) =>
        remove('unused images', images.cleanUp({ olderThanDays: imageDays, signal })),
      ),
    );
  }
  return {
    async close() {
      ended.abort();
      await Promise.all(works);
    },
  };
}
