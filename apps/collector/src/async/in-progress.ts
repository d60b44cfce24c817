/** How much may be in progress at once, and what is said to more. */
export type InProgressLimits = {
  maxItems: number;
  maxBytes: number;
  /** Makes the error for what would be too much. */
  refuse: () => Error;
};

/**
 * Bounds what is in progress at once, and so what waits for the same slow thing: past either limit more is refused
 * at once instead of waiting in memory. What comes while there is nothing else is always let in.
 * @returns Does a piece of work that holds so many bytes until it ends; rejects with the limits' error where it is
 *   not begun, and with what the work throws.
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
