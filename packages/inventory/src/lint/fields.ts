import schema from '../../endpoint.schema.json' with { type: 'json' };
import type { Fields } from './rule.ts';

const TYPES: ReadonlyMap<string, string> = new Map(
  Object.entries(schema.items.properties).map(([key, { type }]) => [key, type]),
);

/** The names of all properties that the specification has. */
export const KNOWN_KEYS: ReadonlySet<string> = new Set(TYPES.keys());

/** The names of those that each record must have. */
export const REQUIRED_KEYS: ReadonlySet<string> = new Set(schema.items.required);

/** What a record says, as far as it has the types of the schema; extra properties as they are. */
export function fieldsOf(value: object): Fields {
  const entries = Object.entries(value).filter(([key, part]) => hasType(part, TYPES.get(key)));
  // Without a prototype, as a record may have a key such as toString.
  return Object.assign(Object.create(null), Object.fromEntries(entries));
}

function hasType(value: unknown, type: string | undefined): boolean {
  if (type === undefined) return true;
  return type === 'integer' ? Number.isInteger(value) : typeof value === type;
}
