import pLimit, { type LimitFunction } from 'p-limit';
import { problem } from '../errors.ts';

/** How many works go on in a line, or wait there. */
const lengthOf = ({ activeCount, pendingCount }: LimitFunction) => activeCount + pendingCount;

/**
 * Makes a function that does one work of a user after the other, in this process. A place is taken until the work has
 * ended: that whoever asked has gone does not end a statement of the database.
 * @param mostWaiting How many works of a user wait for the one that goes on.
 * @returns Gives what the work gives.
 * @throws ProblemError `rate_limited` where too many wait; what the work throws.
 */
export function createTurns(mostWaiting: number) {
  const lines = new Map<string, LimitFunction>();

  return async <Result>(userId: string, work: () => Promise<Result>): Promise<Result> => {
    const line = lines.get(userId) ?? pLimit(1);
    if (lengthOf(line) > mostWaiting) {
      throw problem('rate_limited', {
        detail: `One search of yours goes on and ${mostWaiting} wait for it. Wait until one has been answered, then try again.`,
        headers: {
          'ratelimit-limit': String(1 + mostWaiting),
          'ratelimit-remaining': '0',
          'ratelimit-reset': '1',
          'retry-after': '1',
        },
      });
    }
    lines.set(userId, line);
    try {
      return await line(work);
    } finally {
      if (lengthOf(line) === 0) lines.delete(userId);
    }
  };
}
