import { isDeepStrictEqual } from 'node:util';
import type { PlacedRecord } from '../check/read-records.ts';
import type { EndpointRecord } from '../record.ts';
import { quotedId } from '../shorten.ts';

/** One property that two versions of a record do not share; undefined where it is not there. */
export type PropertyChange = {
  key: string;
  before: unknown;
  after: unknown;
};

/** A record that both inventories have, with other contents. */
export type RecordChange = {
  id: string;
  /** Whether more people than before can reach the endpoint. */
  isWidened: boolean;
  /** In the order of the newer record, then what it has no more; the exposure first. */
  properties: PropertyChange[];
};

/** How one inventory differs from an older one. */
export type InventoryDiff = {
  /** In the order of the newer inventory, those whose exposure was widened first. */
  changed: RecordChange[];
  /** In the order of the newer inventory, public ones first. */
  added: EndpointRecord[];
  /** In the order of the older inventory. */
  removed: EndpointRecord[];
  unchanged: number;
};

/** Ids tell records apart, and one inventory has the same twice. */
export class RepeatedIdError extends Error {
  override name = 'RepeatedIdError';
}

/** From nobody else to everybody; what is unknown may be anything short of what is said to be public. */
const WIDTHS: Record<EndpointRecord['exposure'], number> = {
  local: 0,
  private: 1,
  vpn: 2,
  unknown: 3,
  public: 4,
};

/**
 * Compares two inventories by the ids of their records (Contract 5). It holds the older one in memory.
 * @throws RepeatedIdError, and what the iterables throw.
 */
export async function diffInventories(
  older: AsyncIterable<PlacedRecord>,
  newer: AsyncIterable<PlacedRecord>,
): Promise<InventoryDiff> {
  const left = new Map<string, EndpointRecord>();
  for await (const { value, position } of older) {
    if (left.has(value.id)) throw repeated('older', value.id, position.line);
    left.set(value.id, value);
  }
  const seen = new Set<string>();
  const changed: RecordChange[] = [];
  const added: EndpointRecord[] = [];
  let unchanged = 0;
  for await (const { value, position } of newer) {
    if (seen.has(value.id)) throw repeated('newer', value.id, position.line);
    seen.add(value.id);
    const before = left.get(value.id);
    left.delete(value.id);
    const change = before === undefined ? null : compare(before, value);
    if (before === undefined) added.push(value);
    else if (change === null) unchanged += 1;
    else changed.push(change);
  }
  return {
    changed: firstThose(changed, ({ isWidened }) => isWidened),
    added: firstThose(added, ({ exposure }) => exposure === 'public'),
    removed: [...left.values()],
    unchanged,
  };
}

function compare(before: EndpointRecord, after: EndpointRecord): RecordChange | null {
  const keys = new Set([...Object.keys(after), ...Object.keys(before)]);
  const properties = [...keys]
    .map((key) => ({ key, before: own(before, key), after: own(after, key) }))
    .filter((property) => !isDeepStrictEqual(property.before, property.after));
  if (properties.length === 0) return null;
  return {
    id: after.id,
    isWidened: WIDTHS[after.exposure] > WIDTHS[before.exposure],
    properties: firstThose(properties, ({ key }) => key === 'exposure'),
  };
}

function own(record: EndpointRecord, key: string): unknown {
  return Object.hasOwn(record, key) ? record[key] : undefined;
}

function firstThose<T>(values: readonly T[], isFirst: (value: T) => boolean): T[] {
  return [...values.filter(isFirst), ...values.filter((value) => !isFirst(value))];
}

function repeated(which: string, id: string, line: number): RepeatedIdError {
  return new RepeatedIdError(
    `the ${which} inventory has the id ${quotedId(id)} again on line ${line}, and records are told apart by their ids`,
  );
}
