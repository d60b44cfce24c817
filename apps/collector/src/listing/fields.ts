import {
  type Static,
  type TOptional,
  type TSchema,
  type TSchemaOptions,
  type TUnsafe,
  Type,
} from 'typebox';
import { choice, nullable } from '../schemas.ts';

/** Largest values of PostgreSQL's `numeric(16, 2)` and `numeric(12, 2)`, rounded down to whole units. */
const MAX_PRICE = 99_999_999_999_999;
const MAX_AREA = 9_999_999_999;

/** A time with an offset, and nine digits of a second: more than any clock gives. */
const MAX_TIME_LENGTH = '2026-01-31T12:00:00.123456789+02:00'.length;

/** The types of fields, with the TypeScript type that the API and snapshots have for each. */
type Kinds = {
  /** Text that people write: it may be HTML. */
  text: string;
  /** Text in a fixed form. */
  code: string;
  integer: number;
  number: number;
  list: string[];
  json: Record<string, unknown>;
  /** RFC 3339. */
  time: string;
};

/** One field of a listing, from which everything that handles fields is derived. */
export type Field = {
  kind: keyof Kinds;
  /** The values that a payload may have; a value that the model reads must satisfy it too. */
  value: TSchema;
  /** Which side provides it. Of a field of both the source's value wins. */
  by: 'source' | 'model' | 'both';
  /** Whether a payload must have it. */
  isRequired?: true;
  /** The instruction to the model. */
  ask?: string;
  /** The only values that there are. */
  choices?: readonly string[];
  /** Rules of `merge.ts` that its values go through, in their order. */
  rules?: readonly ('shortened' | 'lower_case' | 'one_spelling' | 'rounded')[];
  /** The field that it cannot exceed; `wholeIsTrusted` where that one is the better known. */
  partOf?: { whole: string; wholeIsTrusted: boolean };
  /**
   * How snapshots compare it: `value` unless set. `wording` of the model alone makes no snapshot, since the model words
   * equal facts differently; `ignored` is not even listed as a change.
   */
  compared?: 'wording' | 'ignored';
  /** Whether its words find the listing. */
  isSearched?: true;
  /** How `oselya evaluate` compares it: not at all unless set. */
  judged?: 'exact' | 'words' | 'digits';
  /** Where it is shown: in one line of a list, in each entry of a list, or where one listing is asked for. */
  shown?: 'line' | 'list' | 'detail';
  label: string;
  /** The unit after its number; of two forms the first is for 1. */
  unit?: string | readonly [one: string, other: string];
};

const text = (maxLength: number) => ({ kind: 'text', value: Type.String({ maxLength }) }) as const;
const integer = (minimum: number, maximum: number) =>
  ({ kind: 'integer', value: Type.Integer({ minimum, maximum }) }) as const;
const number = (minimum: number, maximum: number) =>
  ({ kind: 'number', value: Type.Number({ minimum, maximum }), rules: ['rounded'] }) as const;
const area = () =>
  ({
    kind: 'number',
    value: Type.Number({ minimum: 0, maximum: MAX_AREA, description: 'Square metres.' }),
    rules: ['rounded'],
    unit: 'm²',
  }) as const;
const coordinate = (limit: number) =>
  ({ kind: 'number', value: Type.Number({ minimum: -limit, maximum: limit }) }) as const;
const list = (maxLength: number, maxItems: number) =>
  ({
    kind: 'list',
    value: Type.Array(Type.String({ minLength: 1, maxLength }), { maxItems }),
  }) as const;

/** Returns the schema of an HTTP address. */
export const createUrlSchema = (description: string) =>
  Type.String({
    format: 'uri',
    pattern: '^[hH][tT][tT][pP][sS]?://[^/?#]',
    maxLength: 2048,
    description,
  });

const DEAL_TYPES = ['sale', 'rent', 'daily_rent'] as const;
/** The schema of a kind of offer. */
export const dealTypeSchema = choice(DEAL_TYPES);

/**
 * The fields of a listing, in the order in which answers have them and the model is asked for them. A new field is an
 * entry here, a migration that adds its column, and a rule of the mock model where that should read it.
 */
export const FIELDS = {
  url: {
    kind: 'code',
    value: createUrlSchema("The listing's page at its source."),
    by: 'source',
    label: 'address of its page',
    shown: 'list',
  },
  language: {
    kind: 'code',
    value: Type.String({ maxLength: 20 }),
    by: 'model',
    ask: '`uk`, `ru`, `en`, or `mixed` when no language has a clear majority.',
    rules: ['lower_case'],
    compared: 'wording',
    judged: 'exact',
    label: 'language',
  },
  title: {
    ...text(500),
    by: 'both',
    ask: 'a short title in the language of the text, without advertising, contact details and capital letters for effect.',
    compared: 'wording',
    isSearched: true,
    label: 'title',
    shown: 'list',
  },
  description: {
    kind: 'text',
    value: Type.String({ minLength: 1, maxLength: 50_000, pattern: '\\S' }),
    by: 'source',
    isRequired: true,
    isSearched: true,
    label: 'description',
  },
  summary: {
    ...text(2000),
    by: 'model',
    ask: 'one or two sentences with the main facts in the language of the text.',
    rules: ['shortened'],
    compared: 'ignored',
    isSearched: true,
    label: 'summary',
  },
  deal_type: {
    kind: 'code',
    value: dealTypeSchema,
    choices: DEAL_TYPES,
    by: 'both',
    ask: '`sale`, `rent` (by the month or longer), `daily_rent` (by the night or hour).',
    judged: 'exact',
    label: 'deal',
    shown: 'list',
  },
  property_type: {
    ...text(100),
    by: 'both',
    ask: '`apartment`, `house`, `room`, `land`, `commercial` or `garage`.',
    rules: ['lower_case', 'one_spelling'],
    isSearched: true,
    judged: 'exact',
    label: 'property type',
    shown: 'list',
  },
  price: {
    ...number(0, MAX_PRICE),
    by: 'both',
    ask: 'the asking price as one number. For rent the price of a month, for daily rent the price of a night. A price per square metre, a deposit, a commission and utilities are not the price.',
    judged: 'exact',
    label: 'price',
    shown: 'line',
  },
  currency: {
    kind: 'code',
    value: Type.String({ pattern: '^[A-Z]{3}$', description: 'ISO 4217.' }),
    by: 'both',
    ask: 'the ISO 4217 code of the price.',
    judged: 'exact',
    label: 'currency',
    shown: 'list',
  },
  city: {
    ...text(200),
    by: 'both',
    ask: 'the city in its nominative.',
    isSearched: true,
    judged: 'words',
    label: 'city',
    shown: 'line',
  },
  district: {
    ...text(200),
    by: 'both',
    ask: 'as the text has it.',
    isSearched: true,
    judged: 'words',
    label: 'district',
    shown: 'list',
  },
  address: {
    ...text(500),
    by: 'both',
    ask: 'street and number as the text has them; null when it names only a landmark.',
    isSearched: true,
    judged: 'words',
    label: 'street address',
    shown: 'list',
  },
  rooms: {
    ...integer(0, 1000),
    by: 'both',
    ask: 'how many rooms there are; where the text counts only bedrooms, those.',
    judged: 'exact',
    label: 'rooms',
    unit: ['room', 'rooms'],
    shown: 'line',
  },
  area_total: {
    ...area(),
    by: 'both',
    ask: 'square metres. Land in hundreds of square metres ("соток") is multiplied by 100.',
    judged: 'exact',
    label: 'total area',
    shown: 'line',
  },
  area_living: {
    ...area(),
    by: 'both',
    ask: 'the living area in square metres.',
    partOf: { whole: 'area_total', wholeIsTrusted: true },
    judged: 'exact',
    label: 'living area',
    shown: 'detail',
  },
  area_kitchen: {
    ...area(),
    by: 'both',
    ask: 'the area of the kitchen in square metres.',
    partOf: { whole: 'area_total', wholeIsTrusted: true },
    judged: 'exact',
    label: 'kitchen area',
    shown: 'detail',
  },
  floor: {
    ...integer(-20, 1000),
    by: 'both',
    ask: "the property's floor, counted from 1 at street level.",
    partOf: { whole: 'floors_total', wholeIsTrusted: false },
    judged: 'exact',
    label: 'floor',
    shown: 'list',
  },
  floors_total: {
    ...integer(0, 1000),
    by: 'both',
    ask: 'how many floors the building has.',
    judged: 'exact',
    label: 'floors of the building',
    shown: 'list',
  },
  year_built: {
    ...integer(1500, 2100),
    by: 'both',
    ask: 'the year in which the building was or will be completed, not that of a renovation.',
    judged: 'exact',
    label: 'year built',
    shown: 'detail',
  },
  latitude: { ...coordinate(90), by: 'source', label: 'latitude' },
  longitude: { ...coordinate(180), by: 'source', label: 'longitude' },
  contact_name: {
    ...text(200),
    by: 'both',
    ask: 'the person to call.',
    judged: 'words',
    label: 'contact',
    shown: 'detail',
  },
  phones: {
    ...list(50, 20),
    by: 'both',
    ask: 'the numbers to call in international form such as +380…',
    judged: 'digits',
    label: 'phones',
    shown: 'detail',
  },
  features: {
    ...list(100, 100),
    by: 'model',
    ask: 'short English words in lower case for what the property has, such as `balcony`, `parking`, `furnished`, `elevator`.',
    compared: 'wording',
    isSearched: true,
    label: 'features',
    shown: 'detail',
  },
  attributes: {
    kind: 'json',
    value: Type.Object(
      {},
      {
        additionalProperties: true,
        description: 'Other data of the source, up to 64 KiB of JSON, at most 32 levels deep.',
      },
    ),
    by: 'source',
    label: 'other data of the source',
  },
  published_at: {
    kind: 'time',
    value: Type.String({
      format: 'date-time',
      maxLength: MAX_TIME_LENGTH,
      description: 'RFC 3339.',
    }),
    by: 'source',
    label: 'published',
    shown: 'detail',
  },
} as const satisfies Record<string, Field>;

type Table = typeof FIELDS;

/** The name of a field: of the payload, in the model's answer, in the API's, and of the column. */
export type FieldName = keyof Table;
type NameProvidedBy<By extends Field['by']> = {
  [Name in FieldName]: Table[Name]['by'] extends By ? Name : never;
}[FieldName];
/** The name of a field that a payload may have. */
export type PayloadField = NameProvidedBy<'source' | 'both'>;
/** The name of a field that the model is asked for. */
export type ModelField = NameProvidedBy<'model' | 'both'>;

/** The value of a field in a payload, or as the model should read it. */
export type FieldValue<Name extends FieldName> = Static<Table[Name]['value']>;
type Shown<Name extends FieldName> =
  | Kinds[Table[Name]['kind']]
  | (Table[Name] extends { kind: 'list' | 'json' } | { isRequired: true } ? never : null);

/** Fields as the API and snapshots have them. */
export type FieldValues = { [Name in FieldName]: Shown<Name> };

/** The names of the fields in the order of the table. */
// TypeScript types the keys of every object as strings.
export const FIELD_NAMES = Object.keys(FIELDS) as FieldName[];

/** Returns a field under a type that has every property. */
export const getField = (name: FieldName): Field => FIELDS[name];

const isPayloadField = (name: FieldName): name is PayloadField => FIELDS[name].by !== 'model';
const isModelField = (name: FieldName): name is ModelField => FIELDS[name].by !== 'source';

/** The fields that a payload may have. */
export const PAYLOAD_FIELDS = FIELD_NAMES.filter(isPayloadField);
/** The fields that only the source provides. */
export const SOURCE_FIELDS = PAYLOAD_FIELDS.filter((name) => !isModelField(name));
/** The fields that the model is asked for. */
export const MODEL_FIELDS = FIELD_NAMES.filter(isModelField);

/** Returns an object with a value for each of some fields. */
export function mapFields<Name extends FieldName, Value>(
  names: readonly Name[],
  valueOf: (name: Name) => Value,
): Record<Name, Value> {
  // `Object.fromEntries` forgets the keys.
  return Object.fromEntries(names.map((name) => [name, valueOf(name)])) as Record<Name, Value>;
}

/** Returns a field's value where nothing is known: null, or an empty list or object. */
export function emptyValue(name: FieldName): null | [] | Record<string, never> {
  const { kind } = FIELDS[name];
  return kind === 'list' ? [] : kind === 'json' ? {} : null;
}

/** The properties of a payload that are fields. */
// The schemas are built in a loop, which TypeScript cannot follow.
export const payloadFieldSchemas = mapFields(PAYLOAD_FIELDS, (name) => {
  const { value, isRequired } = getField(name);
  return isRequired ? value : Type.Optional(value);
}) as {
  [Name in PayloadField]: Table[Name] extends { isRequired: true }
    ? Table[Name]['value']
    : TOptional<Table[Name]['value']>;
};

const typeSchemas: Record<keyof Kinds, (options?: TSchemaOptions) => TSchema> = {
  text: (options) => Type.String(options),
  code: (options) => Type.String(options),
  integer: (options) => Type.Integer(options),
  number: (options) => Type.Number(options),
  list: (options) => Type.Array(Type.String(), options),
  json: (options) => Type.Object({}, { additionalProperties: true, ...options }),
  time: (options) => Type.String({ format: 'date-time', ...options }),
};

/** The properties of an answer of the API that are fields, annotated with how to show them. */
export const listingFieldSchemas = mapFields(FIELD_NAMES, (name) => {
  const { kind, isRequired, label, unit, shown } = getField(name);
  const annotations = {
    'x-label': label,
    ...(unit !== undefined && { 'x-unit': unit }),
    ...(shown !== undefined && { 'x-shown': shown }),
  };
  return isRequired || emptyValue(name) !== null
    ? typeSchemas[kind](annotations)
    : Type.Union([typeSchemas[kind](), Type.Null()], annotations);
}) as { [Name in FieldName]: TUnsafe<Shown<Name>> };

/** What a model reads out of a payload; a field that it does not know is null or missing. */
export type Extraction = { is_listing: boolean; reason?: string | null } & {
  [Name in ModelField]?: FieldValue<Name> | null;
};

/**
 * The schema of the model's answer. It asks for types alone: the bounds of `FIELDS` are applied to each value when it is
 * merged, so that one wrong value does not cost the others.
 */
export const extractionSchema = Type.Unsafe<Extraction>(
  Type.Object({
    is_listing: Type.Boolean(),
    reason: nullable(Type.String()),
    ...mapFields(MODEL_FIELDS, (name) => {
      const { kind, choices } = getField(name);
      if (kind === 'list') return typeSchemas.list();
      if (choices !== undefined) return Type.Optional(nullable(Type.Enum([...choices])));
      return Type.Optional(nullable(typeSchemas[kind === 'integer' ? 'number' : kind]()));
    }),
  }),
);

/** The model's instructions for each field, as lines of Markdown. */
export const fieldInstructions = MODEL_FIELDS.map((name) => `- \`${name}\`: ${getField(name).ask}`);
