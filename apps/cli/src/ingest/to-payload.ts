import { PayloadSchema } from '@oselya/collector/payload';
import type { TSchema } from 'typebox';
import { isNothing, type Kind, toValue } from './values.ts';

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

/** How records become payloads. */
export type PayloadOptions = {
  /** Whose payloads they are, whatever the file says. */
  source: string;
  /** The column that each of some fields comes from. */
  mapping: ReadonlyMap<string, string>;
  /** Told each name that is no field of a payload. */
  onUnknown: (name: string) => void;
};

/**
 * Makes payloads of the records of a file: what has the name of a field becomes that field, unless the
 * field is mapped to another column, and everything else goes into `attributes` as it is.
 */
export function createToPayload({ source, mapping, onUnknown }: PayloadOptions) {
  const mapped = new Set(mapping.values());

  return (record: Record<string, unknown>): Record<string, unknown> => {
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
    if (others.length > 0) payload['attributes'] = joined(others, payload['attributes']);
    return payload;
  };
}

function ownValue(record: Record<string, unknown>, name: string): unknown {
  return Object.hasOwn(record, name) ? record[name] : undefined;
}

/** Attributes of the record's own beside the others; what is no object is left for the schema to refuse. */
function joined(others: [string, unknown][], own: unknown = {}): unknown {
  if (typeof own !== 'object' || own === null || Array.isArray(own)) return own;
  return Object.fromEntries([...others, ...Object.entries(own)]);
}
