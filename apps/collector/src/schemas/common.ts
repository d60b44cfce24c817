import { type TSchema, type TUnsafe, Type } from 'typebox';

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
