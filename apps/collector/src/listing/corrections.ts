import { type Static, Type } from 'typebox';
import { createNameSchema, nullable } from '../schemas.ts';
import {
  FIELD_NAMES,
  type FieldName,
  getField,
  isCoordinate,
  mapFields,
  MODEL_FIELDS,
} from './fields.ts';
import type { Origin, Origins } from './provenance.ts';

const UNCORRECTED_FIELDS: ReadonlySet<FieldName> = new Set(['language', 'summary', 'offers']);

/** Fields that a person may correct. */
export const CORRECTABLE_FIELDS = [...MODEL_FIELDS, ...FIELD_NAMES.filter(isCoordinate)].filter(
  (name) => !UNCORRECTED_FIELDS.has(name),
);

const authorSchema = Type.Object({
  api_key_id: nullable(Type.String({ description: 'Null if the collector requires no keys.' })),
  api_key_name: nullable(Type.String()),
  by: nullable(Type.String({ description: 'The person, as the request names them.' })),
});

/** The API key and the person of a correction. */
export type Author = Static<typeof authorSchema>;

/** Schema of the author of a snapshot. */
export const correctedBySchema = nullable(authorSchema);

/** Correction of a field, with the value that it replaces and the origin of that value. */
export type Correction = {
  value: unknown;
  replaced: unknown;
  replaced_origin: Origin | null;
  corrected_at: string;
  corrected_by: Author;
};

/** Corrections of a listing by field name. */
export type Corrections = Readonly<Record<string, Correction>>;

/** Schema of the corrections of a listing. */
export const correctionsSchema = Type.Record(
  Type.String(),
  Type.Object({
    value: Type.Unknown({ description: 'Null if the listing has no value.' }),
    replaced: Type.Unknown({ description: 'Value of the payload or the model; null without one.' }),
    corrected_at: Type.String({ format: 'date-time' }),
    corrected_by: authorSchema,
  }),
  { description: 'Corrections by persons, by field name.' },
);

/** Request to correct fields of a listing. */
export const correctionRequestSchema = Type.Object(
  {
    ...mapFields(CORRECTABLE_FIELDS, (name) => Type.Optional(nullable(getField(name).value))),
    undo: Type.Optional(
      Type.Array(Type.Unsafe<string>(Type.Enum([...CORRECTABLE_FIELDS])), {
        maxItems: CORRECTABLE_FIELDS.length,
        uniqueItems: true,
        description: 'Fields that get the value of the payload or the model again.',
      }),
    ),
    by: Type.Optional(
      createNameSchema(200, 'The person who corrects the listing, for the history.'),
    ),
  },
  {
    additionalProperties: false,
    description: 'New values by field name. With null, the listing has no value.',
    examples: [{ price: 48_000, floor: null, undo: ['city'], by: 'Olha' }],
  },
);

type Merged<Facts> = { facts: Facts; origins: Origins; corrections: Corrections };

/** Replaces facts by the corrections of them, and keeps each replaced value with its correction. */
export function applyCorrections<Facts extends Record<string, unknown>>(
  { facts, origins }: { facts: Facts; origins: Origins },
  corrections: Corrections,
): Merged<Facts> {
  const newFacts: Record<string, unknown> = { ...facts };
  const newOrigins = { ...origins };
  const newCorrections: Record<string, Correction> = {};
  for (const [name, correction] of Object.entries(corrections)) {
    newCorrections[name] = {
      ...correction,
      replaced: facts[name] ?? null,
      replaced_origin: origins[name] ?? null,
    };
    newFacts[name] = correction.value ?? undefined;
    newOrigins[name] = { origin: 'person' };
  }
  return { facts: newFacts as Facts, origins: newOrigins, corrections: newCorrections };
}

/** Returns facts and origins with the replaced values in place of the corrections. */
export function revertCorrections<Facts extends Record<string, unknown>>(
  { facts, origins }: { facts: Facts; origins: Origins },
  corrections: Corrections,
): { facts: Facts; origins: Origins } {
  const newFacts: Record<string, unknown> = { ...facts };
  const newOrigins = { ...origins };
  for (const [name, { replaced, replaced_origin: origin }] of Object.entries(corrections)) {
    newFacts[name] = replaced ?? undefined;
    if (origin === null) delete newOrigins[name];
    else newOrigins[name] = origin;
  }
  return { facts: newFacts as Facts, origins: newOrigins };
}
