import type { Logger } from '@oselya/kit';
import type { Kysely } from 'kysely';
import type { Config } from '../config.ts';
import type { Tables } from '../tables.ts';
import type { Images } from '../images/images.ts';
import { placeChanges, removeOldChanges } from '../listing/changes/service.ts';
import { repeat } from '../async/repeat.ts';
import { endTurn, renewTurn, type Rhythm, takeTurn } from '../turns/recurring.sql.ts';
import type { ArchiveCheck } from './archive/check.ts';
import type { RawCleanup } from './raw/cleanup.ts';

const MINUTE_MS = 60_000;

/** Addresses of one run of the archive check; the run's own deadline comes before it for slow sites. */
const CHECKS = 1000;

/** By name. A run of one that failed is made again soon, not a day later. */
const RHYTHMS = {
  archive_check: { everySeconds: 60, retrySeconds: 60 },
  raw_cleanup: { everySeconds: 24 * 3600, retrySeconds: 600 },
  change_places: { everySeconds: 60, retrySeconds: 60 },
  change_cleanup: { everySeconds: 24 * 3600, retrySeconds: 600 },
  image_cleanup: { everySeconds: 24 * 3600, retrySeconds: 600 },
} as const satisfies Record<string, Rhythm>;

/** Upkeep that goes on until it is closed; closing waits for what is in progress. */
export type Upkeep = { close: () => Promise<void> };

/**
 * Puts changes of listings in their order, removes those that nobody is to ask for any more, and does what else
 * an admin has to ask for, where the configuration says so: the archive check, a run after another with a minute
 * or two between them, and the removal of old payloads and of pictures that no listing shows, once a day. The
 * processes take turns: what one of them does, however long it takes, no other begins.
 */
export function startUpkeep(deps: {
  db: Kysely<Tables>;
  log: Logger;
  archiveCheck: ArchiveCheck;
  rawCleanup: RawCleanup;
  images: Pick<Images, 'cleanUp'>;
  config: Pick<
    Config,
    | 'COLLECTOR_ARCHIVE_CHECK_HOURS'
    | 'COLLECTOR_RAW_RETENTION_DAYS'
    | 'COLLECTOR_IMAGE_RETENTION_DAYS'
  >;
  /** How often it looks whether something is to be done. */
  intervalMs?: number;
}): Upkeep {
  const { db, log, archiveCheck, rawCleanup, images, config, intervalMs = MINUTE_MS } = deps;
  const { COLLECTOR_ARCHIVE_CHECK_HOURS: hours, COLLECTOR_RAW_RETENTION_DAYS: days } = config;
  const { COLLECTOR_IMAGE_RETENTION_DAYS: imageDays } = config;
  const ended = new AbortController();
  const { signal } = ended;

  async function inTurn(name: keyof typeof RHYTHMS, work: () => Promise<void>): Promise<void> {
    if (!(await takeTurn(db, name, RHYTHMS[name]))) return;
    const working = new AbortController();
    const renewing = repeat(renewMsOf(name), () => renewTurn(db, name), {
      signal: working.signal,
      onError: (error) => log.warn({ err: error, work: name }, 'a turn could not be renewed'),
    });
    try {
      await work();
    } finally {
      working.abort();
      await renewing;
    }
    if (!signal.aborted) await endTurn(db, name);
  }

  /** Three times before others take it for given up, and no more rarely than somebody looks. */
  function renewMsOf(name: keyof typeof RHYTHMS): number {
    return Math.min(intervalMs, (RHYTHMS[name].retrySeconds * 1000) / 3);
  }

  async function checkArchive(): Promise<void> {
    const minIntervalSeconds = 3600;
    const due = { limit: CHECKS, notWithinHours: hours };
    const result = await archiveCheck({ ...due, minIntervalSeconds, signal });
    if (result.checked > 0) log.info(result, 'addresses of listings were checked');
  }

  async function removeOld(): Promise<void> {
    const deleted = await rawCleanup({ olderThanDays: days, signal });
    if (deleted > 0) log.info({ deleted }, 'old payloads were removed');
  }

  async function removeFollowed(): Promise<void> {
    const deleted = await removeOldChanges(db, signal);
    if (deleted > 0) log.info({ deleted }, 'old changes of listings were removed');
  }

  async function removeUnshown(): Promise<void> {
    const deleted = await images.cleanUp({ olderThanDays: imageDays, signal });
    if (deleted > 0) log.info({ deleted }, 'pictures that no listing shows were removed');
  }

  const works = [
    comeAround('change_places', () => placeChanges(db, signal)),
    comeAround('change_cleanup', removeFollowed),
    ...(hours > 0 ? [comeAround('archive_check', checkArchive)] : []),
    ...(days > 0 ? [comeAround('raw_cleanup', removeOld)] : []),
    ...(imageDays > 0 ? [comeAround('image_cleanup', removeUnshown)] : []),
  ];

  function comeAround(name: keyof typeof RHYTHMS, work: () => Promise<void>): Promise<void> {
    return repeat(intervalMs, () => inTurn(name, work), {
      signal,
      onError: (error) => {
        if (!signal.aborted) log.warn({ err: error, work: name }, 'upkeep failed');
      },
    });
  }

  return {
    async close() {
      ended.abort();
      await Promise.all(works);
    },
  };
}
