import {
  type Static,
  type TOptional,
  type TSchema,
  type TSchemaOptions,
  type TUnsafe,
  Type,
} from 'typebox';
import { choice, nullable } from '../schemas.ts';
import { PROPERTY_TYPES } from './property-types.ts';

/** Maximum values of PostgreSQL's `numeric(16, 2)` and `numeric(12, 2)`, rounded down to integers. */
const MAX_PRICE = 99_999_999_999_999;
const MAX_AREA = 9_999_999_999;

const MAX_OFFERS = 1000;

/** Length of an RFC 3339 timestamp with an offset and nanoseconds. */
const MAX_TIME_LENGTH = '2026-01-31T12:00:00.123456789+02:00'.length;

/** TypeScript type of each field kind in the API and in snapshots. */
type FieldKinds = {
  /** Free text, which may contain HTML in a payload. */
  text: string;
  /** Text in a fixed format. */
  code: string;
  integer: number;
  number: number;
  list: string[];
  json: Record<string, unknown>;
  /** RFC 3339 timestamp. */
  time: string;
};

/** Definition of a listing field, from which schemas, prompts and column types are derived. */
export type Field = {
  kind: keyof FieldKinds;
  /** Schema of the value in a payload. An extracted value must satisfy the schema too. */
  value: TSchema;
  /** With `both`, the source's value takes precedence over the model's. A `rule` value follows from another field. */
  provider: 'source' | 'model' | 'both' | 'rule';
  isRequired?: true;
  instruction?: string;
  /** Values that the model may choose from. */
  choices?: readonly string[];
  /** Rules that `merge.ts` applies to the value, in order. */
  rules?: readonly ('shortened' | 'lower_case' | 'known_type' | 'rounded')[];
  /** Value of the model that means the same as none. */
  emptyValue?: number;
  /** Field that this field cannot exceed. Of contradictory values with one provider, only a trusted whole is kept. */
  partOf?: { whole: string; isWholeTrusted: boolean };
  /**
   * How snapshots compare the field; by value if unset. If a new payload changes only the model's `wording`, it creates
   * no snapshot, because the model phrases the same facts differently. `ignored` fields are never listed as changes.
   */
  comparison?: 'wording' | 'ignored';
  isSearched?: true;
  /** Comparison in `oselya evaluate`. If unset, the field is not evaluated. */
  evaluation?: 'exact' | 'words' | 'digits';
  /**
   * Views that show the field. `line`: `oselya search`, and the agent's lists and details. `list`: the agent's lists
   * and details. `detail`: the agent's details.
   */
  display?: 'line' | 'list' | 'detail';
  label: string;
  /** Unit after the number, or its singular and plural forms. */
  unit?: string | readonly [singular: string, plural: string];
};

const createTextField = (maxLength: number) =>
  ({ kind: 'text', value: Type.String({ maxLength }) }) as const;
const createIntegerField = (minimum: number, maximum: number) =>
  ({ kind: 'integer', value: Type.Integer({ minimum, maximum }) }) as const;
const createNumberField = (minimum: number, maximum: number) =>
  ({ kind: 'number', value: Type.Number({ minimum, maximum }), rules: ['rounded'] }) as const;
const createAreaField = () =>
  ({
    kind: 'number',
    value: Type.Number({ minimum: 0, maximum: MAX_AREA, description: 'Square metres.' }),
    rules: ['rounded'],
    unit: 'm²',
  }) as const;
const createCoordinateField = (limit: number) =>
  ({ kind: 'number', value: Type.Number({ minimum: -limit, maximum: limit }) }) as const;
const createListField = (maxLength: number, maxItems: number) =>
  ({
    kind: 'list',
    value: Type.Array(Type.String({ minLength: 1, maxLength }), { maxItems }),
  }) as const;

/** Creates a schema for HTTP and HTTPS URLs. */
export const createUrlSchema = (description: string) =>
  Type.String({
    format: 'uri',
    pattern: '^[hH][tT][tT][pP][sS]?://[^/?#]',
    maxLength: 2048,
    description,
  });

const MAX_PROPERTY_TYPE_LENGTH = 100;

/** Kinds of deals. Specification 001, Entities. */
export const DEAL_TYPES = ['sale', 'rent', 'daily_rent'] as const;
export const dealTypeSchema = choice(DEAL_TYPES);

/**
 * Listing fields, in the order of API responses and the prompt. To add a field, add an entry here, a migration for its
 * column and, if the mock model should extract it, a rule in `readSimpleFields`. Then run `npm run generate`.
 */
export const FIELDS = {
  url: {
    kind: 'code',
    value: createUrlSchema('URL of the listing at its source.'),
    provider: 'source',
    label: 'address of its page',
    display: 'list',
  },
  language: {
    kind: 'code',
    value: Type.String({ maxLength: 20 }),
    provider: 'model',
    instruction: '`uk`, `ru`, `en`, or `mixed` when no language has a clear majority.',
    rules: ['lower_case'],
    comparison: 'wording',
    evaluation: 'exact',
    label: 'language',
  },
  title: {
    ...createTextField(500),
    provider: 'both',
    instruction:
      'a short title in the language of the text, without advertising, contact details and capital letters for effect.',
    comparison: 'wording',
    isSearched: true,
    label: 'title',
    display: 'list',
  },
  description: {
    kind: 'text',
    value: Type.String({ minLength: 1, maxLength: 50_000, pattern: '\\S' }),
    provider: 'source',
    isRequired: true,
    isSearched: true,
    label: 'description',
  },
  summary: {
    ...createTextField(2000),
    provider: 'model',
    instruction: 'one or two sentences with the main facts in the language of the text.',
    rules: ['shortened'],
    comparison: 'ignored',
    isSearched: true,
    label: 'summary',
  },
  deal_type: {
    kind: 'code',
    value: dealTypeSchema,
    choices: DEAL_TYPES,
    provider: 'both',
    instruction: '`sale`, `rent` (by the month or longer), `daily_rent` (by the night or hour).',
    evaluation: 'exact',
    label: 'deal',
    display: 'list',
  },
  property_type: {
    kind: 'text',
    value: Type.String({
      maxLength: MAX_PROPERTY_TYPE_LENGTH,
      description: `${PROPERTY_TYPES.join(', ')}, or a word for one of them in Ukrainian, Russian or English. Another word is kept in \`property_type_text\`.`,
    }),
    choices: PROPERTY_TYPES,
    provider: 'both',
    instruction: '`apartment`, `house`, `room`, `land`, `commercial` or `garage`.',
    rules: ['known_type'],
    isSearched: true,
    evaluation: 'exact',
    label: 'property type',
    display: 'list',
  },
  property_type_text: {
    ...createTextField(MAX_PROPERTY_TYPE_LENGTH),
    provider: 'rule',
    isSearched: true,
    label: 'property type as written',
    display: 'detail',
  },
  price: {
    ...createNumberField(0, MAX_PRICE),
    provider: 'both',
    instruction:
      'the asking price as one number. For rent the price of a month, for daily rent the price of a night. A price per square metre, a deposit, a commission and utilities are not the price.',
    evaluation: 'exact',
    label: 'price',
    display: 'line',
  },
  price_per_m2: {
    kind: 'number',
    value: Type.Number({
      minimum: 0,
      maximum: MAX_PRICE,
      description: 'Price of a square metre in `currency`.',
    }),
    provider: 'both',
    instruction:
      'the asking price of one square metre, only where the text gives it. Never divide. A price of land by the hundred square metres or by the hectare, of repairs or of utilities is not one.',
    rules: ['rounded'],
    partOf: { whole: 'price', isWholeTrusted: true },
    evaluation: 'exact',
    label: 'price per square metre',
    display: 'detail',
  },
  currency: {
    kind: 'code',
    value: Type.String({ pattern: '^[A-Z]{3}$', description: 'ISO 4217.' }),
    provider: 'both',
    instruction: 'the ISO 4217 code of the price, or of the price per square metre.',
    evaluation: 'exact',
    label: 'currency',
    display: 'list',
  },
  city: {
    ...createTextField(200),
    provider: 'both',
    instruction: 'the city in its nominative.',
    isSearched: true,
    evaluation: 'words',
    label: 'city',
    display: 'line',
  },
  district: {
    ...createTextField(200),
    provider: 'both',
    instruction: 'as the text has it.',
    isSearched: true,
    evaluation: 'words',
    label: 'district',
    display: 'list',
  },
  address: {
    ...createTextField(500),
    provider: 'both',
    instruction: 'street and number as the text has them; null when it names only a landmark.',
    isSearched: true,
    evaluation: 'words',
    label: 'street address',
    display: 'list',
  },
  rooms: {
    ...createIntegerField(0, 1000),
    provider: 'both',
    instruction: 'how many rooms there are; where the text counts only bedrooms, those.',
    evaluation: 'exact',
    label: 'rooms',
    unit: ['room', 'rooms'],
    display: 'line',
  },
  area_total: {
    ...createAreaField(),
    provider: 'both',
    instruction: 'square metres. Land in hundreds of square metres ("соток") is multiplied by 100.',
    evaluation: 'exact',
    label: 'total area',
    display: 'line',
  },
  area_living: {
    ...createAreaField(),
    provider: 'both',
    instruction: 'the living area in square metres.',
    partOf: { whole: 'area_total', isWholeTrusted: true },
    evaluation: 'exact',
    label: 'living area',
    display: 'detail',
  },
  area_kitchen: {
    ...createAreaField(),
    provider: 'both',
    instruction: 'the area of the kitchen in square metres.',
    partOf: { whole: 'area_total', isWholeTrusted: true },
    evaluation: 'exact',
    label: 'kitchen area',
    display: 'detail',
  },
  floor: {
    ...createIntegerField(-20, 1000),
    provider: 'both',
    instruction: "the property's floor, counted from 1 at street level.",
    partOf: { whole: 'floors_total', isWholeTrusted: false },
    evaluation: 'exact',
    label: 'floor',
    display: 'list',
  },
  floors_total: {
    ...createIntegerField(0, 1000),
    provider: 'both',
    instruction: 'how many floors the building has.',
    evaluation: 'exact',
    label: 'floors of the building',
    display: 'list',
  },
  year_built: {
    ...createIntegerField(1500, 2100),
    provider: 'both',
    instruction:
      'the year in which the building was or will be completed, not that of a renovation.',
    evaluation: 'exact',
    label: 'year built',
    display: 'detail',
  },
  latitude: { ...createCoordinateField(90), provider: 'source', label: 'latitude' },
  longitude: { ...createCoordinateField(180), provider: 'source', label: 'longitude' },
  contact_name: {
    ...createTextField(200),
    provider: 'both',
    instruction: 'the person to call.',
    evaluation: 'words',
    label: 'contact',
    display: 'detail',
  },
  phones: {
    ...createListField(50, 20),
    provider: 'both',
    instruction: 'the numbers to call in international form such as +380…',
    evaluation: 'digits',
    label: 'phones',
    display: 'detail',
  },
  features: {
    ...createListField(100, 100),
    provider: 'model',
    instruction:
      'short English words in lower case for what the property has, such as `balcony`, `parking`, `furnished`, `elevator`.',
    comparison: 'wording',
    isSearched: true,
    label: 'features',
    display: 'detail',
  },
  offers: {
    ...createIntegerField(2, MAX_OFFERS),
    provider: 'model',
    instruction:
      'how many different properties or deals the text offers, such as 2 for a flat to buy or to rent; null for one. The other facts are those of the first.',
    emptyValue: 1,
    comparison: 'wording',
    evaluation: 'exact',
    label: 'offers in the text, of which the listing has the first',
    unit: ['offer in the text', 'offers in the text'],
    display: 'line',
  },
  attributes: {
    kind: 'json',
    value: Type.Object(
      {},
      {
        additionalProperties: true,
        description: 'Other data of the source: at most 64 KiB of JSON, at most 32 levels deep.',
      },
    ),
    provider: 'source',
    label: 'other data of the source',
  },
  published_at: {
    kind: 'time',
    value: Type.String({
      format: 'date-time',
      maxLength: MAX_TIME_LENGTH,
      description: 'RFC 3339.',
    }),
    provider: 'source',
    label: 'published',
    display: 'detail',
  },
} as const satisfies Record<string, Field>;

type FieldDefinitions = typeof FIELDS;

/** Field name in payloads, extractions, API responses and columns. */
export type FieldName = keyof FieldDefinitions;
type FieldNameFrom<Provider extends Field['provider']> = {
  [Name in FieldName]: FieldDefinitions[Name]['provider'] extends Provider ? Name : never;
}[FieldName];
type PayloadField = FieldNameFrom<'source' | 'both'>;
export type ModelField = FieldNameFrom<'model' | 'both'>;
type CoordinateName = 'latitude' | 'longitude';
/** Names of the fields of a listing that the model, a rule or a person may provide. */
export type FactName = FieldNameFrom<'model' | 'both' | 'rule'> | CoordinateName;

/** Field value in a payload or an extraction. */
export type FieldValue<Name extends FieldName> = Static<FieldDefinitions[Name]['value']>;
type ApiValue<Name extends FieldName> =
  | FieldKinds[FieldDefinitions[Name]['kind']]
  | (FieldDefinitions[Name] extends { kind: 'list' | 'json' } | { isRequired: true }
      ? never
      : null);

/** Values of all fields in the API and in snapshots. */
export type FieldValues = { [Name in FieldName]: ApiValue<Name> };

// `Object.keys` returns `string[]`.
export const FIELD_NAMES = Object.keys(FIELDS) as FieldName[];

/** Returns the definition of a field, typed with all optional properties. */
export const getField = (name: FieldName): Field => FIELDS[name];

const isPayloadField = (name: FieldName): name is PayloadField =>
  ['source', 'both'].includes(FIELDS[name].provider);
const isModelField = (name: FieldName): name is ModelField =>
  ['model', 'both'].includes(FIELDS[name].provider);

export const PAYLOAD_FIELDS = FIELD_NAMES.filter(isPayloadField);
/** Names of the fields that only the source provides. */
export const SOURCE_FIELDS = PAYLOAD_FIELDS.filter((name) => !isModelField(name));
export const MODEL_FIELDS = FIELD_NAMES.filter(isModelField);

/** Returns whether a field is a coordinate, which the source provides and a person may correct. */
export const isCoordinate = (name: FieldName): name is CoordinateName =>
  name === 'latitude' || name === 'longitude';
/** Returns whether the model, a rule or a person may provide a field. */
export const isFact = (name: FieldName): name is FactName =>
  isCoordinate(name) || FIELDS[name].provider !== 'source';

/** Creates an object with a value for each field. */
export function mapFields<Name extends FieldName, Value>(
  names: readonly Name[],
  getValue: (name: Name) => Value,
): Record<Name, Value> {
  // `Object.fromEntries` loses the key type.
  return Object.fromEntries(names.map((name) => [name, getValue(name)])) as Record<Name, Value>;
}

/** Returns the value of an unknown field: null, or an empty list or object. */
export function getEmptyValue(name: FieldName): null | [] | Record<string, never> {
  const { kind } = FIELDS[name];
  return kind === 'list' ? [] : kind === 'json' ? {} : null;
}

// TypeScript cannot infer the types of schemas that a loop creates.
export const payloadFieldSchemas = mapFields(PAYLOAD_FIELDS, (name) => {
  const { value, isRequired } = getField(name);
  return isRequired ? value : Type.Optional(value);
}) as {
  [Name in PayloadField]: FieldDefinitions[Name] extends { isRequired: true }
    ? FieldDefinitions[Name]['value']
    : TOptional<FieldDefinitions[Name]['value']>;
};

const schemaFactories: Record<keyof FieldKinds, (options?: TSchemaOptions) => TSchema> = {
  text: (options) => Type.String(options),
  code: (options) => Type.String(options),
  integer: (options) => Type.Integer(options),
  number: (options) => Type.Number(options),
  list: (options) => Type.Array(Type.String(), options),
  json: (options) => Type.Object({}, { additionalProperties: true, ...options }),
  time: (options) => Type.String({ format: 'date-time', ...options }),
};

/** Schemas of the fields in API responses, annotated with display hints. */
export const listingFieldSchemas = mapFields(FIELD_NAMES, (name) => {
  const { kind, isRequired, label, unit, display } = getField(name);
  const annotations = {
    'x-label': label,
    ...(unit !== undefined && { 'x-unit': unit }),
    ...(display !== undefined && { 'x-shown': display }),
  };
  return isRequired || getEmptyValue(name) !== null
    ? schemaFactories[kind](annotations)
    : Type.Union([schemaFactories[kind](), Type.Null()], annotations);
}) as { [Name in FieldName]: TUnsafe<ApiValue<Name>> };

/** Facts that the model extracted from a payload. An unknown field is null, an empty list or missing. */
export type Extraction = { is_listing: boolean; reason?: string | null } & {
  [Name in ModelField]?: FieldValue<Name> | null;
};

const createExtractionSchema = ({ isSent }: { isSent: boolean }) =>
  Type.Unsafe<Extraction>(
    Type.Object({
      is_listing: Type.Boolean(),
      reason: nullable(Type.String()),
      ...mapFields(MODEL_FIELDS, (name) => {
        const { kind, choices, rules } = getField(name);
        if (kind === 'list') return schemaFactories.list();
        if (choices !== undefined && (isSent || rules?.includes('known_type') !== true))
          return Type.Optional(nullable(Type.Enum([...choices])));
        return Type.Optional(nullable(schemaFactories[kind === 'integer' ? 'number' : kind]()));
      }),
    }),
  );

/** Schema in requests to the model. */
export const requestedExtractionSchema = createExtractionSchema({ isSent: true });

/**
 * Schema that checks the model's completion. It checks only types: the bounds of `FIELDS` apply when values are merged,
 * so one invalid value does not discard the others. A property type may be any word, which a rule resolves.
 */
export const extractionSchema = createExtractionSchema({ isSent: false });

/** Prompt instruction for each extracted field, as a Markdown list item. */
export const fieldInstructions = MODEL_FIELDS.map(
  (name) => `- \`${name}\`: ${getField(name).instruction}`,
);
