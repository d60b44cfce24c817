import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { checkPayload } from '@oselya/collector/payload';
import { type Static, Type } from 'typebox';
import { Value } from 'typebox/value';
import { CommandError } from '../command-error.ts';

/** The texts that come with Oselya. */
export const GOLDEN_TEXTS = join(import.meta.dirname, '../../../../samples/golden/listings.jsonl');

/** One value, any of several that are as good, or null where the text says nothing. */
const oneOf = <Schema extends ReturnType<typeof Type.String> | ReturnType<typeof Type.Number>>(
  schema: Schema,
) => Type.Optional(Type.Union([schema, Type.Array(schema, { minItems: 1 }), Type.Null()]));

const text = oneOf(Type.String());
const number = oneOf(Type.Number());

const expectedSchema = Type.Object(
  {
    is_listing: Type.Optional(Type.Boolean()),
    language: text,
    deal_type: text,
    property_type: text,
    price: number,
    currency: text,
    city: text,
    district: text,
    address: text,
    rooms: number,
    area_total: number,
    area_living: number,
    area_kitchen: number,
    floor: number,
    floors_total: number,
    contact_name: text,
    phones: Type.Optional(Type.Array(Type.String())),
  },
  { additionalProperties: false },
);

const goldenSchema = Type.Object({
  name: Type.String({ minLength: 1 }),
  payload: Type.Object({ description: Type.String() }, { additionalProperties: true }),
  expected: expectedSchema,
});

/** What a person reads out of a text. A field that is not there is not judged. */
export type Expected = Static<typeof expectedSchema>;

/** The name of a field that is judged. */
export type Field = keyof Expected;

/** A payload as the collector takes it, and what is to be read out of it. */
export type GoldenText = Omit<Static<typeof goldenSchema>, 'payload'> & {
  payload: Record<string, unknown> & {
    source_slug: string;
    external_id: string;
    description: string;
  };
};

/** The fields that are judged, in the order in which they are shown. */
export const GOLDEN_FIELDS = Object.keys(expectedSchema.properties) as Field[];

/**
 * Reads golden texts: JSON lines of `name`, `payload` and `expected`. The format is described in
 * samples/README.md.
 * @throws CommandError with the line and the rule that it breaks.
 */
export async function readGoldenTexts(path: string): Promise<GoldenText[]> {
  const content = await readFile(path, 'utf8').catch((cause: NodeJS.ErrnoException) => {
    const reason = cause.code === 'ENOENT' ? 'there is no such file' : cause.message;
    throw new CommandError(`${path} cannot be read: ${reason}`, { cause });
  });
  const lines = content.split('\n').map((line, index) => ({ line, place: `${path}:${index + 1}` }));
  const texts = lines
    .filter(({ line }) => line.trim() !== '')
    .map(({ line, place }) => readLine(line, place));
  if (texts.length === 0) throw new CommandError(`${path} has no texts`);
  return texts;
}

function readLine(line: string, place: string): GoldenText {
  const value = parse(line, place);
  if (!Value.Check(goldenSchema, value)) {
    const [error] = Value.Errors(goldenSchema, value);
    throw new CommandError(
      `${place}: ${error?.instancePath ?? ''} ${error?.message ?? ''}: see samples/README.md`,
    );
  }
  const payload = { source_slug: 'golden', external_id: value.name, ...value.payload };
  const [broken] = checkPayload(payload);
  if (broken !== undefined) {
    throw new CommandError(
      `${place}: ${broken.path.replace(/^body/, 'payload')} ${broken.message}`,
    );
  }
  return { ...value, payload };
}

function parse(line: string, place: string): unknown {
  try {
    return JSON.parse(line);
  } catch (cause) {
    throw new CommandError(`${place}: it is no JSON`, { cause });
  }
}
