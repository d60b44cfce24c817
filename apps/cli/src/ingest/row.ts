export type RowPosition = {
  /** One-based number of the record's first line. */
  line: number;
  /** Offset of the end of the record, in UTF-8 bytes. Approximate for JSON arrays. */
  end: number;
  /** One-based position in a JSON array. Undefined for other formats. */
  index?: number;
};

/** Record with its fields by column name. */
export type GoodRow = RowPosition & { fields: Record<string, unknown> };

/** Invalid record text, with the reason. */
type BadRow = RowPosition & { reason: string; text: string };

export type Row = GoodRow | BadRow;

const MAX_TEXT_LENGTH = 1000;

/** Creates a row for text that is not a record. The row contains the beginning of the text. */
export function createInvalidRow(position: RowPosition, reason: string, text: string): BadRow {
  return { ...position, reason, text: text.slice(0, MAX_TEXT_LENGTH).toWellFormed() };
}

/** Returns whether a JSON value is an object. */
export function isRecord(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

/**
 * Reads the first items until `isEnough` returns true or the items end.
 * @returns The first items, whether these are all items, and an iterable of all items.
 */
export async function peek<Item>(
  items: AsyncIterable<Item>,
  isEnough: (head: readonly Item[]) => boolean,
): Promise<{ head: readonly Item[]; isComplete: boolean; allItems: AsyncIterable<Item> }> {
  const iterator = items[Symbol.asyncIterator]();
  const head: Item[] = [];
  let isComplete = false;
  while (!isComplete && !isEnough(head)) {
    const next = await iterator.next();
    if (next.done) isComplete = true;
    else head.push(next.value);
  }
  async function* readAll() {
    yield* head;
    yield* { [Symbol.asyncIterator]: () => iterator };
  }
  return { head, isComplete, allItems: readAll() };
}
