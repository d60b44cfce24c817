import { problem } from '../../errors.ts';

/** For each payload that is processed so many are received, or wait for their turn. */
const RECEIVED_FOR_EACH = 4;

/** And so many of one caller: the rest is for others. */
const RECEIVED_OF_ONE = 3;

/** Does the work of a caller's request in a place, and gives what it gives. */
export type InPlace = <Value>(caller: string, work: () => Promise<Value>) => Promise<Value>;

/**
 * Places for forms that are received or processed. A sender may take its time, and holds nothing but its files
 * meanwhile; but nobody may have all: a quarter is kept for other callers.
 * @param atOnce How many payloads are processed at once.
 * @throws ProblemError `uploads_busy` where none is left, for anybody or for the caller.
 */
export function createPlaces(atOnce: number): InPlace {
  const taken = new Map<string, number>();
  let all = 0;
  return async (caller, work) => {
    if (all >= RECEIVED_FOR_EACH * atOnce) throw problem('uploads_busy');
    const own = taken.get(caller) ?? 0;
    if (own >= RECEIVED_OF_ONE * atOnce) {
      throw problem('uploads_busy', { detail: tooManyOfOne(RECEIVED_OF_ONE * atOnce) });
    }
    taken.set(caller, own + 1);
    all += 1;
    try {
      return await work();
    } finally {
      const left = (taken.get(caller) ?? 1) - 1;
      if (left === 0) taken.delete(caller);
      else taken.set(caller, left);
      all -= 1;
    }
  };
}

function tooManyOfOne(most: number): string {
  return `One API key, or address without one, may have ${most} payloads with pictures (three times COLLECTOR_UPLOADS) on their way or being processed. Send it again when one of yours has been answered.`;
}
