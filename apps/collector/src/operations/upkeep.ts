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

/** Maximum number of listings per archive check. Slow sites reach the deadline of the check first. */
const MAX_CHECKED = 1000;

/** `retryMs` is the time until a failed run is repeated. */
const MINUTELY = { durationMs: MINUTE_MS, everyMs: MINUTE_MS, retryMs: MINUTE_MS };
const DAILY = { durationMs: 10 * MINUTE_MS, everyMs: DAY_MS, retryMs: 10 * MINUTE_MS };

/**
 * Starts the periodic maintenance tasks. A lease ensures that one process at a time runs each task.
 * @param deps.intervalMs Interval between checks for due tasks.
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
  const { db, log, config, intervalMs = MINUTE_MS } = deps;
  const { COLLECTOR_ARCHIVE_CHECK_HOURS: hours, COLLECTOR_RAW_RETENTION_DAYS: rawDays } = config;
  const { COLLECTOR_IMAGE_RETENTION_DAYS: imageDays } = config;
  const ended = new AbortController();
  const { signal } = ended;

  function start(
    name: string,
    schedule: typeof DAILY,
    work: (signal: AbortSignal) => Promise<unknown>,
  ): Promise<void> {
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

  async function logRemoval(removed: string, removal: Promise<number>): Promise<void> {
    const deleted = await removal;
    if (deleted > 0) log.info({ deleted }, `${removed} were removed`);
  }

  const works = [
    start('change_places', MINUTELY, (until) => settleChanges(db, until)),
    start('change_cleanup', DAILY, (until) =>
      logRemoval('old changes of listings', removeOldChanges(db, until)),
    ),
  ];
  if (hours > 0) {
    const options = { limit: MAX_CHECKED, notWithinHours: hours, minIntervalSeconds: 3600 };
    const checkArchive = async (until: AbortSignal) => {
      const result = await deps.archiveCheck({ ...options, signal: until });
      if (result.checked > 0) log.info(result, 'addresses of listings were checked');
    };
    works.push(start('archive_check', MINUTELY, checkArchive));
  }
  const cleanups = [
    ['raw_cleanup', rawDays, 'old payloads', deps.rawCleanup],
    ['image_cleanup', imageDays, 'unused images', deps.images.cleanUp],
  ] as const;
  for (const [name, olderThanDays, removed, cleanUp] of cleanups) {
    if (olderThanDays === 0) continue;
    works.push(
      start(name, DAILY, (until) => logRemoval(removed, cleanUp({ olderThanDays, signal: until }))),
    );
  }
  return {
    async close() {
      ended.abort();
      await Promise.all(works);
    },
  };
}
