import { withLease } from '@oselya/db';
import type { Logger } from '@oselya/kit';
import type { Kysely } from 'kysely';
import { repeat } from '../async/wait.ts';
import type { Config } from '../config.ts';
import type { ImageService } from '../images/image-service.ts';
import { removeOldChanges, assignChangePositions } from '../listing/changes.ts';
import { resolveStoredTypes } from '../listing/stored-types.ts';
import { resolveStoredPlaces } from '../places/backfill.ts';
import { computeStoredStems } from '../search/stored-stems.ts';
import { refreshVocabulary } from '../search/vocabulary.ts';
import type { Tables } from '../tables.ts';
import type { ArchiveCheck } from './archive-check.ts';
import type { RawCleanup } from './payloads.ts';

const MINUTE_MS = 60_000;
const DAY_MS = 24 * 60 * MINUTE_MS;

/** Maximum number of listings per archive check. With slow sites, the deadline ends the check earlier. */
const MAX_LISTINGS_PER_CHECK = 1000;

/** A running task renews its lease, which lasts for `durationMs`. A failed run is retried after `retryMs`. */
const MINUTELY_SCHEDULE = { durationMs: MINUTE_MS, everyMs: MINUTE_MS, retryMs: MINUTE_MS };
const DAILY_SCHEDULE = { durationMs: 10 * MINUTE_MS, everyMs: DAY_MS, retryMs: 10 * MINUTE_MS };

/**
 * Starts the periodic maintenance tasks. A lease ensures that one process at a time runs each task.
 * @param deps.intervalMs Interval between checks for due tasks. One minute by default.
 * @returns A handle whose `close` aborts running tasks and waits for them.
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
  const stopController = new AbortController();
  const { signal } = stopController;

  function startTask(
    name: string,
    schedule: typeof DAILY_SCHEDULE,
    work: (signal: AbortSignal) => Promise<unknown>,
  ): Promise<void> {
    const leaseRow = { table: 'upkeep_turns', key: { name } };
    async function run(): Promise<void> {
      await withLease(db, leaseRow, { ...schedule, signal }, async (taskSignal) => {
        await work(taskSignal);
        // Do not mark an aborted task as done.
        signal.throwIfAborted();
      });
    }
    const onError = (error: unknown): void => {
      if (!signal.aborted) log.warn({ err: error, work: name }, 'upkeep failed');
    };
    return repeat(intervalMs, run, { signal, onError });
  }

  async function logRemoval(description: string, removal: Promise<number>): Promise<void> {
    const deletedCount = await removal;
    if (deletedCount > 0) log.info({ deleted: deletedCount }, `${description} were removed`);
  }

  async function resolveTypes(taskSignal: AbortSignal): Promise<void> {
    const changedCount = await resolveStoredTypes(db, taskSignal);
    if (changedCount > 0) log.info({ changed: changedCount }, 'property types were resolved');
  }

  const tasks = [
    startTask('property_types', MINUTELY_SCHEDULE, resolveTypes),
    startTask('change_places', MINUTELY_SCHEDULE, (taskSignal) =>
      assignChangePositions(db, taskSignal),
    ),
    startTask('places', MINUTELY_SCHEDULE, async (taskSignal) => {
      const listings = await resolveStoredPlaces(db, taskSignal);
      if (listings > 0) log.info({ listings }, 'places of older listings were resolved');
    }),
    startTask('stems', MINUTELY_SCHEDULE, async (taskSignal) => {
      const listings = await computeStoredStems(db, taskSignal);
      if (listings > 0) log.info({ listings }, 'stems of listings were computed');
    }),
    startTask('search_terms', MINUTELY_SCHEDULE, (taskSignal) => refreshVocabulary(db, taskSignal)),
    startTask('all_search_terms', DAILY_SCHEDULE, (taskSignal) =>
      refreshVocabulary(db, taskSignal, { isForced: true }),
    ),
    startTask('change_cleanup', DAILY_SCHEDULE, (taskSignal) =>
      logRemoval('old changes of listings', removeOldChanges(db, taskSignal)),
    ),
  ];
  if (config.COLLECTOR_ARCHIVE_CHECK_HOURS > 0) {
    const options = {
      limit: MAX_LISTINGS_PER_CHECK,
      notWithinHours: config.COLLECTOR_ARCHIVE_CHECK_HOURS,
      minIntervalSeconds: 3600,
    };
    const checkArchive = async (taskSignal: AbortSignal) => {
      const result = await deps.archiveCheck({ ...options, signal: taskSignal });
      if (result.checked > 0) log.info(result, 'addresses of listings were checked');
    };
    tasks.push(startTask('archive_check', MINUTELY_SCHEDULE, checkArchive));
  }
  const cleanups = [
    ['raw_cleanup', config.COLLECTOR_RAW_RETENTION_DAYS, 'old payloads', deps.rawCleanup],
    ['image_cleanup', config.COLLECTOR_IMAGE_RETENTION_DAYS, 'unused images', deps.images.cleanUp],
  ] as const;
  for (const [name, olderThanDays, description, cleanUp] of cleanups) {
    if (olderThanDays === 0) continue;
    tasks.push(
      startTask(name, DAILY_SCHEDULE, (taskSignal) =>
        logRemoval(description, cleanUp({ olderThanDays, signal: taskSignal })),
      ),
    );
  }
  return {
    async close() {
      stopController.abort();
      await Promise.all(tasks);
    },
  };
}
