/** Bounds of what is in progress, and the error for more. */
export type InProgressLimits = {
  maxItems: number;
  maxBytes: number;
  refuse: () => Error;
};

/**
 * Creates a limit on work in progress: past it more is rejected at once instead of waiting in memory. A single item is
 * always admitted.
 * @returns Runs work that holds `size` bytes; rejects with the limit's error, or what the work throws.
 */
export function limitInProgress({ maxItems, maxBytes, refuse }: InProgressLimits) {
  let items = 0;
  let bytes = 0;
  return async <Result>(size: number, work: () => Promise<Result>): Promise<Result> => {
    if (items > 0 && (items + 1 > maxItems || bytes + size > maxBytes)) throw refuse();
    items += 1;
    bytes += size;
    try {
      return await work();
    } finally {
      items -= 1;
      bytes -= size;
    }
  };
}
