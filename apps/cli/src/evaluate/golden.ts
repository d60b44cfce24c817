import { createHash } from 'node:crypto';
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { FIELD_NAMES, getField, mapFields } from '@oselya/collector/fields';
import { checkPayload } from '@oselya/collector/payload';
import { type Static, Type } from 'typebox';
import { Value } from 'typebox/value';
import { CommandError, createFileError } from '../command.ts';
import { parseJson } from '../http.ts';

/** Oselya's own golden texts. */
export const GOLDEN_TEXTS_FILE = join(
  import.meta.dirname,
  '../../../../samples/golden/listings.jsonl',
);

/** Returns the schema of an expected value: one value, several alternatives, or null if the text has no value. */
const createAlternativesSchema = <
  Schema extends ReturnType<typeof Type.String> | ReturnType<typeof Type.Number>,
>(
  schema: Schema,
) => Type.Optional(Type.Union([schema, Type.Array(schema, { minItems: 1 }), Type.Null()]));

const LISTING_FIELDS = FIELD_NAMES.filter((name) => getField(name).evaluation !== undefined);

/** Evaluated fields, in report order. */
export const EVALUATED_FIELDS: readonly string[] = ['is_listing', ...LISTING_FIELDS];

const expectedSchema = Type.Object(
  {
    is_listing: Type.Optional(Type.Boolean()),
    ...mapFields(LISTING_FIELDS, (name) => {
      const { kind } = getField(name);
      if (kind === 'list') return Type.Optional(Type.Array(Type.String()));
      return createAlternativesSchema(
        kind === 'integer' || kind === 'number' ? Type.Number() : Type.String(),
      );
    }),
  },
  { additionalProperties: false },
);

const goldenSchema = Type.Object({
  name: Type.String({ minLength: 1 }),
  payload: Type.Object({ description: Type.String() }, { additionalProperties: true }),
  expected: expectedSchema,
});

/** Expected values by field. The evaluation skips missing fields. */
export type ExpectedValues = Readonly<Record<string, unknown>>;

/** A payload and the values that a model should extract. */
export type GoldenText = Pick<Static<typeof goldenSchema>, 'name'> & {
  expected: ExpectedValues;
  payload: Record<string, unknown> & {
    source_slug: string;
    external_id: string;
    description: string;
  };
};

/**
 * Reads golden texts: JSON Lines with `name`, `payload` and `expected`, as samples/README.md describes.
 * @throws CommandError if the file cannot be read or has no texts, or with the number of the first invalid line.
 */
export async function readGoldenTexts(path: string): Promise<GoldenText[]> {
  const content = await readFile(path, 'utf8').catch((cause: unknown) => {
    throw createFileError(path, 'read', cause);
  });
  const texts = content
    .split('\n')
    .flatMap((line, index) =>
      line.trim() === '' ? [] : [parseLine(line, `${path}:${index + 1}`)],
    );
  if (texts.length === 0) throw new CommandError(`${path} has no texts`);
  return texts;
}

/** Returns a hash of the texts and their expected values. */
export function hashGoldenTexts(texts: readonly GoldenText[]): string {
  return createHash('sha256').update(JSON.stringify(texts)).digest('hex').slice(0, 16);
}

function parseLine(line: string, position: string): GoldenText {
  const value = parseJson(line);
  if (value === undefined) throw new CommandError(`${position}: it is not JSON`);
  if (!Value.Check(goldenSchema, value)) {
    const [error] = Value.Errors(goldenSchema, value);
    const reason = `${error?.instancePath ?? ''} ${error?.message ?? ''}`.trim();
    throw new CommandError(`${position}: ${reason}: see samples/README.md`);
  }
  const payload = { source_slug: 'golden', external_id: value.name, ...value.payload };
  const [fault] = checkPayload(payload);
  if (fault === undefined) return { ...value, payload };
  throw new CommandError(`${position}: ${fault.path.replace(/^body/, 'payload')} ${fault.message}`);
}
