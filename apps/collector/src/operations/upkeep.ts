import type { Logger } from '@oselya/kit';
import type { Kysely } from 'kysely';
import type { Config } from '../config.ts';
import type { Tables } from '../database.ts';
import { repeat } from '../queue/repeat.ts';
import type { ArchiveCheck } from './archive/check.ts';
import type { RawCleanup } from './raw/cleanup.ts';
import { takeTurn } from './turns.sql.ts';

const MINUTE_MS = 60_000;

/** Addresses of one run of the archive check; the run's own deadline comes before it for slow sites. */
const CHECKS = 1000;

export type Upkeep = { close: () => Promise<void> };

/**
 * Does what else an admin has to ask for, where the configuration says so: the archive check, a run a
 * minute while addresses are due, and the removal of old payloads, once a day. The processes take turns.
 */
export function startUpkeep(deps: {
  db: Kysely<Tables>;
  log: Logger;
  archiveCheck: ArchiveCheck;
  rawCleanup: RawCleanup;
  config: Pick<Config, 'COLLECTOR_ARCHIVE_CHECK_HOURS' | 'COLLECTOR_RAW_RETENTION_DAYS'>;
  /** How often it looks whether something is to be done. */
  intervalMs?: number;
}): Upkeep {
  const { db, log, archiveCheck, rawCleanup, config, intervalMs = MINUTE_MS } = deps;
  const { COLLECTOR_ARCHIVE_CHECK_HOURS: hours, COLLECTOR_RAW_RETENTION_DAYS: days } = config;
  const ended = new AbortController();
  const { signal } = ended;

  async function checkArchive(): Promise<void> {
    if (!(await takeTurn(db, 'archive_check', 60))) return;
    const minIntervalSeconds = 3600;
    const due = { limit: CHECKS, notWithinHours: hours };
    const result = await archiveCheck({ ...due, minIntervalSeconds, signal });
    if (result.checked > 0) log.info(result, 'addresses of listings were checked');
  }

  async function removeOld(): Promise<void> {
    if (!(await takeTurn(db, 'raw_cleanup', 24 * 3600))) return;
    const deleted = await rawCleanup({ olderThanDays: days, signal });
    if (deleted > 0) log.info({ deleted }, 'old payloads were removed');
  }

  const works = [
    ...(hours > 0 ? [repeat(intervalMs, checkArchive, onFailure('archive check'))] : []),
    ...(days > 0 ? [repeat(intervalMs, removeOld, onFailure('removal of payloads'))] : []),
  ];

  function onFailure(work: string) {
    return {
      signal,
      onError: (error: unknown) => {
        if (!signal.aborted) log.warn({ err: error, work }, 'upkeep failed');
      },
    };
  }

  return {
    async close() {
      ended.abort();
      await Promise.all(works);
    },
  };
}
