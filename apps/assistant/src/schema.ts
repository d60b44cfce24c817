import { type TSchema, Type } from 'typebox';

/** A value, or null where there is none. */
export const nullable = <Schema extends TSchema>(schema: Schema) =>
  Type.Union([schema, Type.Null()]);

/** A time, as RFC 3339 writes it. */
export const timestamp = (description?: string) =>
  Type.String({ format: 'date-time', ...(description !== undefined && { description }) });

/** Text that PostgreSQL can store: without NUL characters. */
export const storableText = (options: {
  minLength?: number;
  maxLength: number;
  description?: string;
}) => Type.String({ pattern: '^[^\\u0000]*$', ...options });

/** An OpenID subject has 255 characters at most. OpenID Connect Core §2. */
export const userId = storableText({
  minLength: 1,
  maxLength: 255,
  description: "The user's id at the identity provider.",
});

/** The answer of what succeeds without anything to tell. */
export const okAnswer = Type.Object(
  { ok: Type.Literal(true) },
  { description: 'It is done.', examples: [{ ok: true }] },
);
