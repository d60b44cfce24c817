import type { TSchema } from 'typebox';

/** The JSON Schema that a model is sent. */
export type ModelSchema = {
  readonly type: string | readonly string[];
  readonly description?: string;
  readonly enum?: readonly (string | null)[];
  readonly items?: ModelSchema;
  readonly properties?: Readonly<Record<string, ModelSchema>>;
  readonly required?: readonly string[];
  readonly additionalProperties?: false;
  /** Only {@link defineModelSchema} creates one, so that nothing else is sent. */
  readonly [made]: true;
};

declare const made: unique symbol;

const defined = new Map<string, ModelSchema>();

/** Returns every schema that has been defined so far, by its name; for tests. */
export const definedModelSchemas = (): ReadonlyMap<string, ModelSchema> => defined;

/**
 * Converts a schema to the part of JSON Schema that all servers can follow: the grammars of llama.cpp and Ollama, the
 * backends of vLLM, and OpenAI's strict mode. That is `type`, `enum` of strings, `items`, `properties`, and objects
 * whose keys are all required. Optional keys become nullable. Patterns, formats and bounds are left out: each server
 * rejects or misreads some of them, so answers are checked against the original schema.
 *
 * @param name The name that the schema has in requests.
 * @throws TypeError for a schema that cannot be converted.
 * @see docs/models.md#what-is-sent
 */
export function defineModelSchema(name: string, schema: TSchema): ModelSchema {
  // Without the keys that TypeBox keeps beside the schema.
  const sent = convert(JSON.parse(JSON.stringify(schema)), name);
  defined.set(name, sent);
  return sent;
}

/** The keywords of JSON Schema that a conversion reads. */
type Source = {
  type?: unknown;
  enum?: unknown[];
  anyOf?: Source[];
  items?: Source;
  properties?: Record<string, Source>;
  required?: string[];
  description?: string;
};

const SCALARS = new Set(['string', 'number', 'integer', 'boolean']);

function convert(source: Source, path: string): ModelSchema {
  const { description } = source;
  const sent = { ...convertType(source, path), ...(description !== undefined && { description }) };
  return sent as ModelSchema;
}

function convertType(source: Source, path: string): Omit<ModelSchema, typeof made> {
  if (source.anyOf !== undefined) {
    const [inner, none, ...more] = source.anyOf;
    if (inner !== undefined && none?.type === 'null' && more.length === 0) {
      return nullable(convert(inner, path));
    }
    throw new TypeError(`${path}: a model schema has no unions, except with null`);
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
      const sent = convert(value, `${path}.${key}`);
      return [key, required.includes(key) ? sent : nullable(sent)] as const;
    });
    return {
      type: 'object',
      properties: Object.fromEntries(entries),
      required: Object.keys(properties),
      additionalProperties: false,
    };
  }
  if (typeof source.type === 'string' && SCALARS.has(source.type) && !('const' in source)) {
    return { type: source.type };
  }
  throw new TypeError(`${path}: a model schema has no such type`);
}

function nullable(schema: ModelSchema): ModelSchema {
  if (typeof schema.type !== 'string') return schema;
  return {
    ...schema,
    type: [schema.type, 'null'],
    ...(schema.enum && { enum: [...schema.enum, null] }),
  };
}

/** An answer to ask a model for: the schema that checks it and the one that is sent. */
export type ModelAnswer<S extends TSchema = TSchema> = {
  /** The schema's name in the request; the mock chooses its rules by it. */
  schemaName: string;
  /** Answers are checked against it. */
  schema: S;
  sentSchema: ModelSchema;
  /** The longest answer, in tokens: a model that repeats itself is stopped there. */
  maxOutputTokens: number;
};

/**
 * Defines an answer.
 * @throws TypeError for a schema that cannot be converted; see {@link defineModelSchema}.
 */
export function defineAnswer<S extends TSchema>(
  answer: Omit<ModelAnswer<S>, 'sentSchema'>,
): ModelAnswer<S> {
  return { ...answer, sentSchema: defineModelSchema(answer.schemaName, answer.schema) };
}
