import type { Disk } from 'flydrive';
import { inTime } from '../../async/in-time.ts';
import { pause } from '../../async/repeat.ts';
import { isDiskLow } from '../../disk/disk.ts';
import { isNotThere } from '../missing.ts';

/** What a store needs of the disk that it is on. */
export type StoreDisk = Pick<
  Disk,
  'put' | 'copyFromFs' | 'exists' | 'getBytes' | 'getStream' | 'delete' | 'listAll'
>;

/** The pause between two tries of a store that is away: twice as long each time, to the longest. */
const FIRST_PAUSE_MS = 500;
const LONGEST_PAUSE_MS = 5000;
/** A try that takes longer is in vain: what hangs is tried again on another connection. */
const TRY_MS = 10_000;

/** What is written and read to see whether a store that was away can be used again. It stays, a few bytes. */
const PROBE_KEY = 'probe';
const PROBE = 'Written to see whether pictures can be stored.';

/**
 * The store failed at what it would do for nobody at present. `outage` is one object for all that fails between the
 * first failure and the moment from which the store can be used again.
 */
export class StoreOutageError extends Error {
  override readonly name = 'StoreOutageError';
  readonly outage: object;

  constructor(outage: object, cause: unknown) {
    super('The image store failed', { cause });
    this.outage = outage;
  }
}

/** Whether the image store can be used, as far as this process knows. */
export type StoreState = {
  /** While it is away no job is begun: its pictures could not be stored. */
  readonly isAway: boolean;
  /** Asks it, and gives whether it answers well; a signal ends the wait with no. */
  answers(signal: AbortSignal): Promise<boolean>;
  /**
   * What it means that a picture could not be handled on its way to the store, which is in a folder of the store where
   * that is a folder: an outage, unless something was not there, or the disk is full. Then it is the error itself.
   */
  toOutage(error: unknown): unknown;
};

/**
 * Watches the disk that a store is on. Whatever it fails at begins an outage, but that something is not there, and
 * that there is no room for it, which the gate of the disk looks after: a key that is refused or a bucket that is gone
 * stops all pictures just as a server that is away does. From then on it is tried until a small object could be
 * written and read; that another request came through does not end it, since many outages are of writing alone.
 * @param options.onBegin Told once for each outage, with what failed first.
 * @param options.onEnd Told when it can be used again, and how long that took.
 * @returns The disk, whose failures are StoreOutageErrors; its state; and what ends the tries.
 */
export function watchDisk(
  disk: StoreDisk,
  options: {
    onBegin: (error: unknown) => void;
    onEnd: (lastedMs: number) => void;
    firstPauseMs?: number;
  },
): { disk: StoreDisk; state: StoreState; close: () => void } {
  const { onBegin, onEnd, firstPauseMs = FIRST_PAUSE_MS } = options;
  const ended = new AbortController();
  let outage: object | undefined;

  async function canBeUsed(): Promise<boolean> {
    const used = disk.put(PROBE_KEY, PROBE).then(() => disk.getBytes(PROBE_KEY));
    try {
      return await inTime(used, TRY_MS);
    } catch {
      return false;
    }
  }

  async function untilItCanBeUsed(): Promise<void> {
    const since = performance.now();
    for (let pauseMs = firstPauseMs; !(await canBeUsed()); pauseMs *= 2) {
      await pause(Math.min(pauseMs, LONGEST_PAUSE_MS), ended.signal);
      if (ended.signal.aborted) return;
    }
    outage = undefined;
    onEnd(performance.now() - since);
  }

  function begin(error: unknown): object {
    if (outage !== undefined) return outage;
    outage = {};
    onBegin(error);
    void untilItCanBeUsed();
    return outage;
  }

  function toOutage(error: unknown): unknown {
    const isOutage = !isNotThere(error) && !isDiskLow(error);
    return isOutage ? new StoreOutageError(begin(error), error) : error;
  }

  async function watched<Result>(work: Promise<Result>): Promise<Result> {
    try {
      return await work;
    } catch (error) {
      throw toOutage(error);
    }
  }

  const watchedDisk: StoreDisk = {
    put: (...all) => watched(disk.put(...all)),
    copyFromFs: (...all) => watched(disk.copyFromFs(...all)),
    exists: (...all) => watched(disk.exists(...all)),
    getBytes: (...all) => watched(disk.getBytes(...all)),
    getStream: (...all) => watched(disk.getStream(...all)),
    delete: (...all) => watched(disk.delete(...all)),
    listAll: (...all) => watched(disk.listAll(...all)),
  };
  return {
    disk: watchedDisk,
    state: {
      get isAway() {
        return outage !== undefined;
      },
      async answers(signal) {
        if (outage !== undefined) return false;
        const { promise: cut, resolve } = Promise.withResolvers<false>();
        signal.addEventListener('abort', () => resolve(false), { once: true });
        const answered = watchedDisk.exists(PROBE_KEY).then(
          () => true,
          () => false,
        );
        return Promise.race([answered, cut]);
      },
      toOutage,
    },
    close: () => ended.abort(),
  };
}
