import { setImmediate as waitForImmediate } from 'node:timers/promises';
import { isDatabaseOutage } from '@oselya/db';
import DataLoader from 'dataloader';
import pLimit from 'p-limit';

/**
 * Creates a function that batches the writes of concurrent callers. While groups are in flight, items collect in
 * the next group. If a group fails, its items are written one by one, except during an outage.
 * @returns A function that resolves to the item's result after the commit, or rejects with the item's error.
 */
export function createGroupCommit<Item, Result>(options: {
  /** Writes and commits a group. Returns a result or an error per item, in the same order. */
  write: (items: readonly Item[]) => Promise<readonly (Result | Error)[]>;
  /** Maximum number of items in a group. */
  maxItems: number;
  /** Maximum size of a group in bytes. A larger item is written alone. */
  maxBytes?: number;
  getBytes?: (item: Item) => number;
  /** Maximum number of groups in flight. */
  maxInFlight: number;
}): (item: Item) => Promise<Result> {
  const { write, maxItems, maxBytes = Infinity, getBytes = () => 0, maxInFlight } = options;
  const limitGroups = pLimit(maxInFlight);
  let lastWrite: Promise<unknown> = Promise.resolve();

  async function writeGroups(groups: Iterable<readonly Item[]>): Promise<(Result | Error)[]> {
    const results: (Result | Error)[] = [];
    for (const group of groups) results.push(...(await writeGroup(group)));
    return results;
  }

  async function writeGroup(items: readonly Item[]): Promise<readonly (Result | Error)[]> {
    try {
      return await write(items);
    } catch (error) {
      return items.length === 1 || isDatabaseOutage(error)
        ? items.map(() => toError(error))
        : writeGroups(items.map((item) => [item]));
    }
  }

  const loader = new DataLoader<Item, Result>(
    (items) => (lastWrite = writeGroups(splitBySize(items, getBytes, maxBytes))),
    {
      cache: false,
      maxBatchSize: maxItems,
      batchScheduleFn: (dispatch) =>
        void limitGroups(async () => {
          await waitForImmediate();
          dispatch();
          await lastWrite;
        }),
    },
  );
  return (item) => loader.load(item);
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
