import type { Day } from '../day.ts';
import type { LintCode, Position, RelatedPlace, Severity } from '../finding.ts';
import type { ReadRecord } from '../read/check-record.ts';
import { type EndpointRecord, PROPERTY_TYPES } from '../record.ts';

/** A problem of a property of a record; of the whole record when the key is empty. */
export type Found = {
  key: string;
  message: string;
  /** The unambiguous correct value. */
  fixed?: string | number;
  related?: RelatedPlace[];
};

/** The properties of a record that have the type that the schema requires. */
export type Fields = Readonly<Partial<EndpointRecord>>;

/** The first place of each id in the inventories of one call. */
export type Ids = Map<string, { file: string } & Position>;

/** The facts that rules share for one inventory. */
export type RuleContext = {
  today: Day;
  /** The label of the inventory. */
  file: string;
  ids: Ids;
};

/** One rule of the linter. */
export type Rule<Options = unknown> = {
  code: LintCode;
  severity: Severity;
  /** JSON Schemas (draft 2020-12) of the options in inventory.config.json, by name. */
  options?: Readonly<Record<string, object>>;
  defaults?: Options;
  /** Returns the check of one inventory, which is called with each record in order. */
  create(
    context: RuleContext,
    options: Options,
  ): (fields: Fields, record: ReadRecord) => readonly Found[];
};

/** Returns the properties of a record that have the type that the schema requires, and extra ones. */
export function fieldsOf(value: object): Fields {
  // Without a prototype, as a record may lack a property and have a key such as `toString`.
  const fields: Record<string, unknown> = Object.create(null);
  for (const [key, part] of Object.entries(value)) {
    const type = PROPERTY_TYPES.get(key);
    const hasType = type === 'integer' ? Number.isInteger(part) : typeof part === type;
    if (type === undefined || hasType) fields[key] = part;
  }
  return fields;
}
