import { setTimeout as sleep } from 'node:timers/promises';
import type { EndpointRecord } from '../record.ts';
import { type Observation, type ProbeOptions, probeRecord } from './probe.ts';

/** How many endpoints are looked at at once, at most. */
export const MAX_PROBES_AT_ONCE = 64;

/** How many endpoints are begun within a second, at most. */
export const MAX_PROBES_PER_SECOND = 1000;

export type ProbeAllOptions = {
  /** How many endpoints are looked at at once, up to 64; 4 unless told. */
  concurrency?: number;
  /** How many are begun within a second, up to 1000; 5 unless told. */
  perSecond?: number;
} & ProbeOptions;

/**
 * Looks at the endpoints of records, few at once and few a second, so that neither a network nor a server takes it
 * for an attack. Each observation comes as soon as it is there; none is begun while those that are there wait to be
 * taken, and who takes no more ends those in progress.
 * @throws RangeError for limits beyond the greatest, what the records throw, and the signal's reason.
 */
export async function* probeAll(
  records: Iterable<EndpointRecord>,
  { concurrency = 4, perSecond = 5, signal, ...options }: ProbeAllOptions = {},
): AsyncGenerator<Observation, void, undefined> {
  within('concurrency', concurrency, MAX_PROBES_AT_ONCE);
  within('perSecond', perSecond, MAX_PROBES_PER_SECOND);
  const ending = new AbortController();
  const either = AbortSignal.any([ending.signal, ...(signal === undefined ? [] : [signal])]);
  const inProgress = new Set<Promise<Done>>();
  let next: Promise<null> | null = null;

  function begin(record: EndpointRecord): void {
    const done: Promise<Done> = probeRecord(record, { ...options, signal: either }).then(
      (observation) => ({ observation, done }),
    );
    // Of several that fail at once, as at the end, only the first is waited for.
    done.catch(() => undefined);
    inProgress.add(done);
  }

  try {
    for (const record of records) {
      while (next !== null || inProgress.size >= concurrency) {
        const turn = next !== null && inProgress.size < concurrency ? [next] : [];
        const first: Done | null = await Promise.race([...inProgress, ...turn]);
        if (first === null) next = null;
        else {
          inProgress.delete(first.done);
          yield first.observation;
        }
      }
      signal?.throwIfAborted();
      begin(record);
      next = sleep(1000 / perSecond, null, { signal: either });
      next.catch(() => undefined);
    }
    while (inProgress.size > 0) {
      const { observation, done } = await Promise.race(inProgress);
      inProgress.delete(done);
      yield observation;
    }
  } catch (error) {
    // What is waited for tells of the end by an error of its own.
    signal?.throwIfAborted();
    throw error;
  } finally {
    ending.abort();
  }
}

type Done = { observation: Observation; done: Promise<Done> };

function within(name: string, value: number, most: number): void {
  if (value > 0 && value <= most) return;
  throw new RangeError(`${name} is more than 0 and at most ${most}, not ${value}`);
}
