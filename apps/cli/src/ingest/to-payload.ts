import { isDeepStrictEqual } from 'node:util';
import { PayloadSchema } from '@oselya/collector/payload';
import type { TSchema } from 'typebox';
import { isRecord } from './row.ts';
import { describeAmbiguity, isNothing, type Kind, toValue } from './values.ts';

/** The names of a payload's fields that a file may fill. */
export const FIELDS: readonly string[] = Object.keys(PayloadSchema.properties).filter(
  (field) => field !== 'source_slug',
);

const KINDS: Readonly<Record<string, Kind>> = {
  number: 'number',
  integer: 'number',
  array: 'list',
  object: 'object',
};

const kinds = new Map<string, Kind>(
  Object.entries<TSchema>(PayloadSchema.properties)
    .filter(([field]) => field !== 'source_slug')
    .map(([field, schema]) => [field, KINDS[String(Reflect.get(schema, 'type'))] ?? 'text']),
);
kinds.set('price', 'price');

/** How to write a field's value that was refused, where it may be two. */
export function adviceOn(field: string, value: unknown): string | undefined {
  return describeAmbiguity(kinds.get(field) ?? 'text', value);
}

/** How records become payloads. */
export type PayloadOptions = {
  /** Whose payloads they are, whatever the file says. */
  source: string;
  /** The column that each of some fields comes from. */
  mapping: ReadonlyMap<string, string>;
  /** Told each name that is no field of a payload. */
  onUnknown: (name: string) => void;
};

/** A payload, or why a record is none. */
export type Made = { payload: Record<string, unknown> } | { reason: string };

/**
 * Makes payloads of the records of a file: what has the name of a field becomes that field, unless the
 * field is mapped to another column, and everything else goes into `attributes` as it is. A record that has two
 * values for one attribute makes none, since one of them would be lost.
 */
export function createToPayload({ source, mapping, onUnknown }: PayloadOptions) {
  const mapped = new Set(mapping.values());

  return (record: Record<string, unknown>): Made => {
    const payload: Record<string, unknown> = { source_slug: source };
    const others: [string, unknown][] = [];
    for (const [name, value] of Object.entries(record)) {
      if (mapped.has(name) || isNothing(value)) continue;
      const kind = mapping.has(name) ? undefined : kinds.get(name);
      if (kind !== undefined) {
        payload[name] = toValue(kind, value);
      } else if (name !== 'source_slug') {
        onUnknown(name);
        others.push([name, value]);
      }
    }
    for (const [field, column] of mapping) {
      const value = toValue(kinds.get(field) ?? 'text', ownValue(record, column));
      if (value !== undefined) payload[field] = value;
    }
    const own = payload['attributes'] ?? {};
    // What is no object is left for the schema to refuse.
    if (others.length > 0 && isRecord(own)) {
      const twice = others.filter(([name, value]) => differs(own, name, value));
      if (twice.length > 0) return { reason: twice.map(([name]) => givenTwice(name)).join('; ') };
      payload['attributes'] = Object.fromEntries([...others, ...Object.entries(own)]);
    }
    return { payload };
  };
}

function ownValue(record: Record<string, unknown>, name: string): unknown {
  return Object.hasOwn(record, name) ? record[name] : undefined;
}

/** Whether an object has another value under a name. */
const differs = (object: Record<string, unknown>, name: string, value: unknown): boolean =>
  Object.hasOwn(object, name) && !isDeepStrictEqual(object[name], value);

const givenTwice = (name: string) =>
  `${name} is given twice, by itself and within attributes: leave one of them out`;
