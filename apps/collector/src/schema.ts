import { type TSchema, type TUnsafe, Type } from 'typebox';
import { MAX_ID } from './limits.ts';

/** One of some words. */
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

/** A value, or null where it is not known. */
export const nullable = <Schema extends TSchema>(schema: Schema) =>
  Type.Union([schema, Type.Null()]);

/** An id of the database. */
export const idSchema = Type.Integer({ minimum: 1, maximum: MAX_ID });
