import { type TSchema, Type } from 'typebox';

/** Builds the schema of a value or null. */
export const nullable = <Schema extends TSchema>(
  schema: Schema,
  options: { description?: string } = {},
) => Type.Union([schema, Type.Null()], options);

/** Builds the schema of an RFC 3339 time. */
export const timestamp = (description?: string) =>
  Type.String({ format: 'date-time', ...(description !== undefined && { description }) });

/** Builds the schema of text without NUL characters, which PostgreSQL cannot store. */
export const storableText = (options: {
  minLength?: number;
  maxLength: number;
  description?: string;
}) => Type.String({ pattern: '^[^\\u0000]*$', ...options });

/** Schema of a user ID. OpenID Connect Core §2. */
export const userIdSchema = storableText({
  minLength: 1,
  maxLength: 255,
  description: "The user's ID at the identity provider.",
});

/** Schema of the response to a request that succeeds without details. */
export const okResponse = Type.Object(
  { ok: Type.Literal(true) },
  { description: 'The request succeeded.', examples: [{ ok: true }] },
);
