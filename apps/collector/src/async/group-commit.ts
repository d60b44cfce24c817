import { setImmediate as nextTurn } from 'node:timers/promises';
import { isDatabaseOutage } from '@oselya/db';
import DataLoader from 'dataloader';
import pLimit from 'p-limit';
import { toError } from './to-error.ts';

/** How a group is written, and how large it may be. */
export type GroupCommitOptions<Item, Result> = {
  /** Writes a group in a statement and gives a result or an error for each item, in their order. */
  write: (items: readonly Item[]) => Promise<readonly (Result | Error)[]>;
  /** Most items of a group. */
  maxItems: number;
  /** Most bytes of a group; an item that is larger is written alone. */
  maxBytes?: number;
  bytesOf?: (item: Item) => number;
  /** Groups that are written at once. */
  maxInFlight: number;
};

/**
 * Makes a function that writes an item together with those that others want to have written meanwhile:
 * while a group is on its way the next one gathers, so that the more there is to write, the fewer
 * commits each item costs. Each caller gets the result or the error of its own item: a group that fails
 * is tried again item by item, except in an outage, which is everybody's.
 * @returns Resolves after the commit; rejects with what `write` threw.
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
        // Whatever came in with the same turn of the event loop belongs together.
        await nextTurn();
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
