import type { ProblemError } from '@oselya/kit';
import type { FastifyRequest, onRequestHookHandler } from 'fastify';
import { getSignedInUser } from './access/guards.ts';
import { problem } from './errors.ts';

const MINUTE_MS = 60_000;

/** Creates a function that consumes one unit of a per-minute budget, and returns whether the budget allowed it. */
export function createMinuteBudget(budget: number): () => boolean {
  let endsAt = 0;
  let spentAmount = 0;
  return () => {
    const now = performance.now();
    if (now >= endsAt) {
      endsAt = now + MINUTE_MS;
      spentAmount = 0;
    }
    spentAmount += 1;
    return spentAmount <= budget;
  };
}

/**
 * Creates per-minute budgets by key. All budgets are reset at the same time, so unused keys take no memory.
 * @returns `wait` returns the seconds until a key may spend again, or 0 if it may now. `spend` may exceed the budget.
 */
export function createMinuteBudgets(budget: number) {
  let endsAt = 0;
  const spentAmounts = new Map<string, number>();
  return {
    wait(key: string): number {
      const now = performance.now();
      if (now >= endsAt) {
        endsAt = now + MINUTE_MS;
        spentAmounts.clear();
      }
      return (spentAmounts.get(key) ?? 0) < budget ? 0 : Math.ceil((endsAt - now) / 1000);
    },
    spend(key: string, amount: number): void {
      spentAmounts.set(key, (spentAmounts.get(key) ?? 0) + amount);
    },
  };
}

/** Creates counters by key. A key with the count 0 takes no memory. */
export function createTally() {
  const counts = new Map<string, number>();
  const getCount = (key: string) => counts.get(key) ?? 0;
  return {
    getCount,
    add(key: string): number {
      const count = getCount(key) + 1;
      counts.set(key, count);
      return count;
    },
    remove(key: string): void {
      const count = getCount(key) - 1;
      if (count > 0) counts.set(key, count);
      else counts.delete(key);
    },
    get size() {
      return counts.size;
    },
  };
}

/**
 * Creates a hook that limits its requests in progress in this process, because each holds a whole file in memory. It
 * rejects further requests with `unavailable`.
 */
export function limitTransfers(max: number, transfers: string): onRequestHookHandler {
  const detail = `Too many ${transfers} are in progress. Try again in a moment.`;
  const headers = { 'retry-after': '2' };
  return limitByKey(
    max,
    () => '',
    () => problem('unavailable', { detail, headers }),
  );
}

/** Creates a hook that limits each user's requests in progress in this process. It must run after the guard. */
export function limitPerUser(max: number, createError: () => ProblemError): onRequestHookHandler {
  return limitByKey(max, (request) => getSignedInUser(request).id, createError);
}

function limitByKey(
  max: number,
  findKey: (request: FastifyRequest) => string,
  createError: () => ProblemError,
): onRequestHookHandler {
  const requestCounts = createTally();
  return (request, reply, done) => {
    const key = findKey(request);
    if (requestCounts.getCount(key) >= max) return done(createError());
    // If the client has already gone, no event would decrement the count.
    if (reply.raw.closed) return void reply.hijack();
    reply.raw.once('close', () => requestCounts.remove(key));
    requestCounts.add(key);
    done();
  };
}
