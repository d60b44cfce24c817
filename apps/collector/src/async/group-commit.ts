import { setImmediate as waitForImmediate } from 'node:timers/promises';
import { isDatabaseOutage } from '@oselya/db';

/** Time for which a group in flight holds back small groups. A longer one probably waits for a lock. */
const MAX_HOLD_MS = 20;

/**
 * Creates a function that batches the writes of concurrent callers. While groups are in flight, items collect in the next
 * group. If a group fails, its items are written one by one, except during an outage.
 * @returns A function that resolves to the item's result after the commit, or rejects with the item's error.
 */
export function createGroupCommit<Item, Result>(options: {
  /** Writes and commits a group. Returns a result or an error per item, in the same order. */
  write: (items: readonly Item[]) => Promise<readonly (Result | Error)[]>;
  /** Minimum number of items in a group soon after another group started, because small groups cost more. */
  minItems?: number;
  /** Maximum number of items in a group. */
  maxItems: number;
  /** Maximum size of a group in bytes. A larger item is written alone. */
  maxBytes?: number;
  getBytes?: (item: Item) => number;
  /** Maximum number of groups in flight. */
  maxInFlight: number;
}): (item: Item) => Promise<Result> {
  const { write, minItems = 1, maxItems, maxInFlight } = options;
  const { maxBytes = Infinity, getBytes = () => 0 } = options;
  const queue: { item: Item; result: PromiseWithResolvers<Result> }[] = [];
  let inFlightCount = 0;
  /** Number of groups in flight for less than {@link MAX_HOLD_MS}. */
  let holdingCount = 0;
  let isCollecting = false;

  async function writeNextGroup(): Promise<void> {
    if (isCollecting || !canStart()) return;
    isCollecting = true;
    await waitForImmediate();
    isCollecting = false;
    if (!canStart()) return;
    const [items = []] = splitBySize(
      queue.slice(0, maxItems).map(({ item }) => item),
      getBytes,
      maxBytes,
    );
    const entries = queue.splice(0, items.length);
    inFlightCount += 1;
    holdingCount += 1;
    void writeNextGroup();
    const writing = writeGroup(items);
    await Promise.race([
      writing,
      new Promise((resolve) => void setTimeout(resolve, MAX_HOLD_MS).unref()),
    ]);
    holdingCount -= 1;
    void writeNextGroup();
    const results = await writing;
    inFlightCount -= 1;
    for (const [index, { result }] of entries.entries()) {
      const itemResult = results[index] ?? new Error('A written item has no result');
      if (itemResult instanceof Error) result.reject(itemResult);
      else result.resolve(itemResult);
    }
    void writeNextGroup();
  }

  function canStart(): boolean {
    const minCount = holdingCount === 0 ? 1 : minItems;
    return inFlightCount < maxInFlight && queue.length >= minCount;
  }

  async function writeGroup(items: readonly Item[]): Promise<readonly (Result | Error)[]> {
    try {
      return await write(items);
    } catch (error) {
      if (items.length === 1 || isDatabaseOutage(error)) return items.map(() => toError(error));
      const results: (Result | Error)[] = [];
      for (const item of items) results.push(...(await writeGroup([item])));
      return results;
    }
  }

  return (item) => {
    const result = Promise.withResolvers<Result>();
    queue.push({ item, result });
    void writeNextGroup();
    return result.promise;
  };
}

/** Divides items into groups of at most `maxBytes`. A larger item gets a separate group. */
export function splitBySize<Item>(
  items: readonly Item[],
  getBytes: (item: Item) => number,
  maxBytes: number,
): Item[][] {
  const groups: Item[][] = [];
  let bytes = 0;
  for (const item of items) {
    const lastGroup = groups.at(-1);
    const itemBytes = getBytes(item);
    bytes += itemBytes;
    if (lastGroup !== undefined && bytes <= maxBytes) {
      lastGroup.push(item);
    } else {
      groups.push([item]);
      bytes = itemBytes;
    }
  }
  return groups;
}

/** Converts a thrown value to an Error. */
export function toError(value: unknown): Error {
  return value instanceof Error ? value : new Error(String(value));
}
