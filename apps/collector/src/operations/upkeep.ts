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

/** The maximum number of listings per archive check. Slow sites reach the deadline of the check first. */
const MAX_CHECKED = 1000;

const MINUTELY = { durationMs: MINUTE_MS, everyMs: MINUTE_MS, retryMs: MINUTE_MS };
/** A failed run is retried after 10 minutes. */
const DAILY = { durationMs: 10 * MINUTE_MS, everyMs: DAY_MS, retryMs: 10 * MINUTE_MS };

/**
 * Starts the periodic maintenance tasks. A lease ensures that one process at a time runs each task.
 * @param deps.intervalMs The interval between checks for due tasks.
 * @returns A handle whose `close` waits for running tasks.
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
        // Do not mark an aborted task as done.
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
