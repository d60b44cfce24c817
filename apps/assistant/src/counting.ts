const MINUTE_MS = 60_000;

/**
 * A budget for a minute, which begins with its first use.
 * @returns Spends one use, and says whether the budget had it.
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
 * Budgets for a minute, one for each key. The minutes of all keys end together, so that no key is kept for longer.
 * @returns `wait` gives the seconds until a key may spend again, 0 where it may now; `spend` counts what something came
 *   to, which may be more than was left.
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

/** Counts by key; a key without a count takes no memory. */
export function createTally() {
  const counts = new Map<string, number>();
  const of = (key: string) => counts.get(key) ?? 0;
  return {
    of,
    /** Gives the new count. */
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
