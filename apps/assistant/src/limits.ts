import type { ProblemError } from '@oselya/kit';
import type { FastifyReply, onRequestHookHandler } from 'fastify';
import { signedIn } from './access/guards.ts';
import { problem } from './errors.ts';

const MINUTE_MS = 60_000;

/**
 * Creates a budget for each minute, which begins with its first use.
 * @returns A function that spends one use and returns whether the budget had it.
 */
export function perMinute(budget: number): () => boolean {
  let endsAt = 0;
  let used = 0;
  return () => {
    const now = performance.now();
    if (now >= endsAt) {
      endsAt = now + MINUTE_MS;
      used = 0;
    }
    used += 1;
    return used <= budget;
  };
}

/**
 * Creates a budget for each minute and key. The minutes of all keys end together, which bounds the memory.
 * @returns `wait` returns the seconds until a key may spend again, 0 if it may now. `spend` may exceed the budget.
 */
export function perMinuteOfEach(budget: number) {
  let endsAt = 0;
  const used = new Map<string, number>();
  return {
    wait(key: string): number {
      const now = performance.now();
      if (now >= endsAt) {
        endsAt = now + MINUTE_MS;
        used.clear();
      }
      return (used.get(key) ?? 0) < budget ? 0 : Math.ceil((endsAt - now) / 1000);
    },
    spend(key: string, amount: number): void {
      used.set(key, (used.get(key) ?? 0) + amount);
    },
  };
}

/** Creates counters by key; a key with the count 0 takes no memory. */
export function createTally() {
  const counts = new Map<string, number>();
  const of = (key: string) => counts.get(key) ?? 0;
  return {
    of,
    /** Returns the new count. */
    add(key: string): number {
      const count = of(key) + 1;
      counts.set(key, count);
      return count;
    },
    remove(key: string): void {
      const count = of(key) - 1;
      if (count > 0) counts.set(key, count);
      else counts.delete(key);
    },
    get size() {
      return counts.size;
    },
  };
}

/**
 * Creates a hook that limits the requests of its routes that are in progress in this process, from the first byte of
 * the request to the last byte of the answer. Each of them holds a whole file in memory.
 * @param what The transfers, in the plural, for the error.
 */
export function limitTransfers(max: number, what: string): onRequestHookHandler {
  const detail = `Too many ${what} are in progress. Try again in a moment.`;
  return limitByKey(
    max,
    () => '',
    () => problem('unavailable', { detail, headers: { 'retry-after': '2' } }),
  );
}

/** Creates a hook that limits the requests in progress in this process for each user. It runs after the guard. */
export function limitPerUser(max: number, createError: () => ProblemError): onRequestHookHandler {
  return limitByKey(max, (request) => signedIn(request).id, createError);
}

function limitByKey(
  max: number,
  keyOf: (request: Parameters<onRequestHookHandler>[0]) => string,
  createError: () => ProblemError,
): onRequestHookHandler {
  const inProgress = createTally();
  return (request, reply, done) => {
    const key = keyOf(request);
    if (inProgress.of(key) >= max) return done(createError());
    if (!onceClosed(reply, () => inProgress.remove(key))) return;
    inProgress.add(key);
    done();
  };
}

/**
 * Calls `work` once the connection of an answer is done with it.
 * @returns False if the client has already gone: no event follows, and the request must not go on.
 */
function onceClosed(reply: FastifyReply, work: () => void): boolean {
  if (reply.raw.closed) {
    reply.hijack();
    return false;
  }
  reply.raw.once('close', work);
  return true;
}
