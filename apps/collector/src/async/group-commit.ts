import { setImmediate as immediate } from 'node:timers/promises';
import { isDatabaseOutage } from '@oselya/db';
import DataLoader from 'dataloader';
import pLimit from 'p-limit';

/**
 * Creates a function that batches the writes of concurrent callers. While groups are in flight, items collect in
 * the next group. If a group fails, its items are written one by one, except during an outage.
 * @returns A function that resolves to the item's result after the commit.
 */
export function createGroupCommit<Item, Result>(options: {
  /** Writes a group in one statement. Returns a result or an error per item, in the same order. */
  write: (items: readonly Item[]) => Promise<readonly (Result | Error)[]>;
  /** Maximum number of items in a group. */
  maxItems: number;
  /** Maximum size of a group in bytes. A larger item is written alone. */
  maxBytes?: number;
  bytesOf?: (item: Item) => number;
  /** Maximum number of groups in flight. */
  maxInFlight: number;
}): (item: Item) => Promise<Result> {
  const { write, maxItems, maxBytes = Infinity, bytesOf = () => 0, maxInFlight } = options;
  const inFlight = pLimit(maxInFlight);
  let writing: Promise<unknown> = Promise.resolve();

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

  function splitBySize(items: readonly Item[]): Item[][] {
    const groups: Item[][] = [];
    let bytes = 0;
    for (const item of items) {
      const last = groups.at(-1);
      bytes += bytesOf(item);
      if (last !== undefined && bytes <= maxBytes) {
        last.push(item);
      } else {
        groups.push([item]);
        bytes = bytesOf(item);
      }
    }
    return groups;
  }

  const loader = new DataLoader<Item, Result>(
    (items) => (writing = writeGroups(splitBySize(items))),
    {
      cache: false,
      maxBatchSize: maxItems,
      batchScheduleFn: (dispatch) =>
        void inFlight(async () => {
          await immediate();
          dispatch();
          await writing;
        }),
    },
  );
  return (item) => loader.load(item);
}

/** Converts a thrown value to an Error. */
export function toError(thrown: unknown): Error {
  return thrown instanceof Error ? thrown : new Error(String(thrown));
}
