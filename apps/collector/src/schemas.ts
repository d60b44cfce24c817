import { type Static, type TSchema, type TUnsafe, Type } from 'typebox';

/** In bytes. */
export const MEBIBYTE = 1024 * 1024;

/** The most images of a listing, by address or uploaded. Contract 4, PayloadSchema. */
export const MAX_IMAGES = 50;

/** Largest body of a request, in bytes. Contract 4, PayloadSchema. */
export const BODY_LIMIT = MEBIBYTE;

/** Ids are JavaScript numbers, and larger ones than those hold do not exist. */
export const MAX_ID = Number.MAX_SAFE_INTEGER;

/** Returns the schema of one of several words. */
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

/** Returns the schema of a value or null. */
export const nullable = <Schema extends TSchema>(schema: Schema) =>
  Type.Union([schema, Type.Null()]);

/** The name of a source. */
export const sourceSlugSchema = Type.String({
  pattern: '^[a-z0-9][a-z0-9_-]{0,63}$',
  description: 'The source; it is created with its first payload.',
});

/**
 * An id in an address. It is text, because conversions to a number also accept `0x1`, `1e2` and ` 1`: one listing would
 * have many addresses.
 */
export const idParam = Type.String({
  pattern: String.raw`^[1-9]\d{0,15}$`,
  description: 'A whole number from 1.',
});

/** Returns the number of a valid `idParam`. */
export function parseId(text: string): number {
  return Number(text);
}

/** The statuses of a payload. Specification 001, Raw data status. */
export const RAW_STATUSES = ['pending', 'processing', 'completed', 'invalid', 'failed'] as const;

/** A status of a payload, in requests and answers. */
export const rawStatusSchema = choice(RAW_STATUSES);

/** How a stage of the pipeline ended. docs/pipeline.md, Stages. */
export const stageOutcomeSchema = choice(
  ['done', 'skipped', 'unchanged', 'superseded', 'invalid', 'failed', 'postponed'],
  {
    description:
      '`skipped` had nothing to do. `unchanged`: the payload says nothing new. `superseded`: the listing was made ' +
      'from a newer payload meanwhile. `invalid` and `failed` ended the payload, whose `error` has the reason. ' +
      '`postponed`: what the stage needs was not there, and the payload went back to the queue.',
  },
);

/** How a stage of the pipeline ended. */
export type StageOutcome = Static<typeof stageOutcomeSchema>;

/** Why a payload is invalid or failed, or was put back and waits. */
export const rawErrorSchema = nullable(
  Type.Object({
    code: Type.String({ description: 'See docs/errors.md.' }),
    message: Type.String(),
    stage: Type.Optional(Type.String()),
  }),
);

/** The outcome of an uploaded image. */
export const uploadOutcomeSchema = Type.Union([
  Type.Object({
    sha256: Type.String(),
    width: Type.Integer(),
    height: Type.Integer(),
    duplicate: Type.Boolean({ description: 'Whether these bytes were stored before.' }),
  }),
  Type.Object({ error: Type.String({ description: 'Why this image cannot be used.' }) }),
]);

/** How a stage of a payload ended, and how long it took. Contract 4, Answers. */
export const stageSchema = Type.Object({
  stage: Type.String(),
  outcome: stageOutcomeSchema,
  started_at: Type.String({ format: 'date-time' }),
  duration_ms: Type.Number(),
});

/** Requests to the model for a payload, and their tokens. */
export const modelUsageSchema = Type.Object(
  {
    calls: Type.Integer({ description: 'Requests made; one that several shared counts for each.' }),
    input_tokens: Type.Integer(),
    output_tokens: Type.Integer(),
  },
  {
    description:
      'The cost of the payload at the model, in all attempts and with its images. Tokens are 0 if the server does not count them. Of an attempt whose worker was killed or lost its claim it is the cost up to the last renewal.',
  },
);
