import { setImmediate as immediate } from 'node:timers/promises';
import { isDatabaseOutage } from '@oselya/db';
import DataLoader from 'dataloader';
import pLimit from 'p-limit';

/** Options of a group commit. */
export type GroupCommitOptions<Item, Result> = {
  /** Writes a group in one statement. Returns a result or an error per item, in the same order. */
  write: (items: readonly Item[]) => Promise<readonly (Result | Error)[]>;
  /** Maximum number of items in a group. */
  maxItems: number;
  /** Maximum size of a group in bytes. A larger item is written alone. */
  maxBytes?: number;
  bytesOf?: (item: Item) => number;
  /** Maximum number of groups in flight. */
  maxInFlight: number;
};

/**
 * Creates a function that batches the writes of concurrent callers. While groups are in flight, items collect in
 * the next group. If a group fails, its items are written one by one, except during an outage.
 * @returns A function that resolves to the item's result after the commit.
 */
export function createGroupCommit<Item, Result>({
  write,
  maxItems,
  maxBytes = Infinity,
  bytesOf = () => 0,
  maxInFlight,
}: GroupCommitOptions<Item, Result>): (item: Item) => Promise<Result> {
  const inFlight = pLimit(maxInFlight);
  let writing: Promise<unknown> = Promise.resolve();

  async function writeAll(items: readonly Item[]): Promise<(Result | Error)[]> {
    const results: (Result | Error)[] = [];
    for (const group of split(items, bytesOf, maxBytes)) {
      results.push(...(await writeGroup(group)));
    }
    return results;
  }

  async function writeGroup(items: readonly Item[]): Promise<readonly (Result | Error)[]> {
    try {
      return await write(items);
    } catch (error) {
      return items.length === 1 || isDatabaseOutage(error)
        ? items.map(() => toError(error))
        : writeAlone(items);
    }
  }

  async function writeAlone(items: readonly Item[]): Promise<(Result | Error)[]> {
    const results: (Result | Error)[] = [];
    for (const item of items) results.push(...(await writeGroup([item])));
    return results;
  }

  const loader = new DataLoader<Item, Result>((items) => (writing = writeAll(items)), {
    cache: false,
    maxBatchSize: maxItems,
    batchScheduleFn: (dispatch) =>
      void inFlight(async () => {
        await immediate();
        dispatch();
        await writing;
      }),
  });
  return (item) => loader.load(item);
}

function* split<Item>(
  items: readonly Item[],
  bytesOf: (item: Item) => number,
  maxBytes: number,
): Generator<Item[]> {
  let group: Item[] = [];
  let bytes = 0;
  for (const item of items) {
    const size = bytesOf(item);
    if (group.length > 0 && bytes + size > maxBytes) {
      yield group;
      [group, bytes] = [[], 0];
    }
    group.push(item);
    bytes += size;
  }
  yield group;
}

/** Converts a thrown value to an Error. */
export function toError(thrown: unknown): Error {
  return thrown instanceof Error ? thrown : new Error(String(thrown));
}
