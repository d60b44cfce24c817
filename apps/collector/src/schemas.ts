import { type Static, type TSchema, type TUnsafe, Type } from 'typebox';

export const MEBIBYTE = 1024 * 1024;

/** Maximum number of images of a listing. Contract 4, PayloadSchema. */
export const MAX_IMAGES = 50;

/** Maximum size in bytes of a JSON request body, and of the payload in an upload form. Contract 4, PayloadSchema. */
export const MAX_BODY_BYTES = MEBIBYTE;

export const MAX_ID = Number.MAX_SAFE_INTEGER;

/** Creates the schema of a string enumeration. */
export function choice<const Words extends readonly string[]>(
  words: Words,
  options: { default?: Words[number]; description?: string } = {},
): TUnsafe<Words[number]> {
  return Type.Unsafe<Words[number]>(
    Type.Union(
      words.map((word) => Type.Literal(word)),
      options,
    ),
  );
}

/** Creates the schema of a value or null. */
export const nullable = <Schema extends TSchema>(schema: Schema) =>
  Type.Union([schema, Type.Null()]);

export const SOURCE_SLUG_PATTERN = '^[a-z0-9][a-z0-9_-]{0,63}$';
export const sourceSlugSchema = Type.String({
  pattern: SOURCE_SLUG_PATTERN,
  description: 'Name of the source, which its first payload creates.',
});

/** Creates the schema of a name in one line that is not blank. */
export const createNameSchema = (maxLength: number, description: string) =>
  Type.String({
    minLength: 1,
    maxLength,
    pattern: String.raw`^(?=.*\S)[^\p{Cc}\p{Cs}\p{Zl}\p{Zp}]+$`,
    description,
  });

/**
 * Schema of an ID in a URL. The type is a string, because number conversion accepts `0x1` and `1e2`, so that one
 * listing would have many URLs.
 */
export const idParam = Type.String({
  pattern: String.raw`^[1-9]\d{0,15}$`,
  description: 'A whole number from 1.',
});

/** Parses a valid `idParam`. */
export function parseId(text: string): number {
  return Number(text);
}

/** Statuses of a raw record. Specification 001, Raw data status. */
export const RAW_STATUSES = ['pending', 'processing', 'completed', 'invalid', 'failed'] as const;

export const rawStatusSchema = choice(RAW_STATUSES);

const stageOutcomeSchema = choice(
  ['done', 'skipped', 'unchanged', 'superseded', 'invalid', 'failed', 'postponed'],
  {
    description:
      '`skipped`: the stage was not needed. `unchanged`: the payload is unchanged. `superseded`: a newer payload has updated ' +
      'the listing. `invalid` and `failed` ended the payload, whose `error` has the reason. ' +
      '`postponed`: a service was not available, and the payload returned to the queue.',
  },
);

/** Outcome of a stage. docs/pipeline.md, Stages. */
export type StageOutcome = Static<typeof stageOutcomeSchema>;

/** Schema of the reason why a job ended `invalid` or `failed` or was postponed; null without a reason. */
export const rawErrorSchema = nullable(
  Type.Object({
    code: Type.String({ description: 'See docs/errors.md.' }),
    message: Type.String(),
    stage: Type.Optional(Type.String()),
  }),
);

export const uploadOutcomeSchema = Type.Union([
  Type.Object({
    sha256: Type.String(),
    width: Type.Integer(),
    height: Type.Integer(),
    duplicate: Type.Boolean({ description: 'Whether the same file was stored before.' }),
  }),
  Type.Object({ error: Type.String({ description: 'Reason why the image cannot be used.' }) }),
]);

/** Schema of a finished stage. Contract 4, Answers. */
export const stageSchema = Type.Object({
  stage: Type.String(),
  outcome: stageOutcomeSchema,
  started_at: Type.String({ format: 'date-time' }),
  duration_ms: Type.Number(),
});

/** Schema of a raw record's model usage: requests and tokens. */
export const modelUsageSchema = Type.Object(
  {
    calls: Type.Integer({
      description: 'Number of requests; a request shared by several payloads counts for each.',
    }),
    input_tokens: Type.Integer(),
    output_tokens: Type.Integer(),
  },
  {
    description:
      'Cost of the payload at the model, in all attempts and with its images. Tokens are 0 if the server does not count them. An attempt whose worker was killed or lost its claim counts up to the last renewal.',
  },
);
