import { type Static, type TSchema, Type } from 'typebox';

/** JSON Schema for requests to a model. */
export type ModelSchema = {
  readonly type: string | readonly string[];
  readonly description?: string;
  readonly enum?: readonly (string | null)[];
  readonly items?: ModelSchema;
  readonly properties?: Readonly<Record<string, ModelSchema>>;
  readonly required?: readonly string[];
  readonly additionalProperties?: false;
  /** Brand. Only `defineModelSchema` creates model schemas. */
  readonly [brand]: true;
};

declare const brand: unique symbol;

const schemasByName = new Map<string, ModelSchema>();

/** Returns all defined schemas by name, for tests. */
export const listModelSchemas = (): ReadonlyMap<string, ModelSchema> => schemasByName;

/**
 * Converts a schema to the subset of JSON Schema that all servers support: llama.cpp, Ollama, vLLM, and the strict mode
 * of OpenAI. The subset has `type`, `enum` of strings, `items`, and `properties` that are all required. Optional keys
 * become nullable. A union of a list and its item becomes the list. Patterns, formats and bounds are omitted, because
 * some servers reject or misinterpret them. Completions are validated against the original schema.
 * @param name Name of the schema in requests.
 * @throws TypeError for a schema that cannot be converted.
 * @see docs/models.md#what-is-sent
 */
export function defineModelSchema(name: string, schema: TSchema): ModelSchema {
  // The JSON round trip removes the internal keys of TypeBox.
  const modelSchema = convert(JSON.parse(JSON.stringify(schema)), name);
  schemasByName.set(name, modelSchema);
  return modelSchema;
}

type SourceSchema = {
  type?: unknown;
  enum?: unknown[];
  anyOf?: SourceSchema[];
  items?: SourceSchema;
  properties?: Record<string, SourceSchema>;
  required?: string[];
  description?: string;
};

const SCALAR_TYPES = new Set(['string', 'number', 'integer', 'boolean']);

function convert(source: SourceSchema, path: string): ModelSchema {
  const { description } = source;
  const modelSchema = {
    ...convertType(source, path),
    ...(description !== undefined && { description }),
  };
  return modelSchema as ModelSchema;
}

function convertType(source: SourceSchema, path: string): Omit<ModelSchema, typeof brand> {
  if (source.anyOf !== undefined) {
    const [valueSchema, otherSchema, ...moreSchemas] = source.anyOf;
    if (valueSchema !== undefined && otherSchema?.type === 'null' && moreSchemas.length === 0) {
      return makeNullable(convert(valueSchema, path));
    }
    const isListOrItem =
      valueSchema?.type === 'array' && valueSchema.items?.type === otherSchema?.type;
    if (isListOrItem && moreSchemas.length === 0) return convertType(valueSchema, path);
    throw new TypeError(
      `${path}: a model schema has no unions, except with null, or of a list and its item`,
    );
  }
  if (source.enum?.every((value) => typeof value === 'string')) {
    return { type: 'string', enum: source.enum };
  }
  if (source.type === 'array' && source.items !== undefined) {
    return { type: 'array', items: convert(source.items, `${path}[]`) };
  }
  if (source.type === 'object' && source.properties !== undefined) {
    const { properties, required = [] } = source;
    const entries = Object.entries(properties).map(([key, value]) => {
      const modelSchema = convert(value, `${path}.${key}`);
      return [key, required.includes(key) ? modelSchema : makeNullable(modelSchema)] as const;
    });
    return {
      type: 'object',
      properties: Object.fromEntries(entries),
      required: Object.keys(properties),
      additionalProperties: false,
    };
  }
  if (typeof source.type === 'string' && SCALAR_TYPES.has(source.type) && !('const' in source)) {
    return { type: source.type };
  }
  throw new TypeError(`${path}: a model schema has no such type`);
}

function makeNullable(schema: ModelSchema): ModelSchema {
  if (typeof schema.type !== 'string') return schema;
  return {
    ...schema,
    type: [schema.type, 'null'],
    ...(schema.enum && { enum: [...schema.enum, null] }),
  };
}

/** Definition of a completion: the schema that validates it, and the schema for the request. */
export type CompletionDefinition<S extends TSchema = TSchema> = {
  /** Name of the schema in requests. The mock selects its rules by this name. */
  schemaName: string;
  schema: S;
  sentSchema: ModelSchema;
  /** Maximum length of a completion in tokens. Stops a model that repeats itself. */
  maxOutputTokens: number;
};

/**
 * Defines a completion.
 * @throws TypeError for a schema that cannot be converted.
 */
export function defineCompletion<S extends TSchema>(
  definition: Omit<CompletionDefinition<S>, 'sentSchema'>,
): CompletionDefinition<S> {
  return { ...definition, sentSchema: defineModelSchema(definition.schemaName, definition.schema) };
}

/** Completion schema for images of listings. A change to it needs a new version of the prompt. */
export const imageDescription = defineCompletion({
  schemaName: 'image_description',
  maxOutputTokens: 500,
  schema: Type.Object({
    description: Type.String(),
    room_type: Type.Enum([
      'kitchen',
      'bathroom',
      'bedroom',
      'living_room',
      'exterior',
      'plan',
      'other',
    ]),
    quality: Type.Enum(['good', 'poor']),
  }),
});

/** Validated image description. The length of its text is not limited. */
export type ImageDescription = Static<typeof imageDescription.schema>;
