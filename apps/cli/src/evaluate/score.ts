import { ModelError, normaliseText, type TrialExtraction } from '@oselya/collector';
import { type Field, FIELD_NAMES, getField } from '@oselya/collector/fields';
import { type ExpectedValues, type GoldenText, JUDGED_FIELDS } from './golden.ts';

/** Counts of a field's values. An incorrect value counts as both wrong and missed. */
export type Tally = {
  right: number;
  /** Number of extracted values that the text does not contain. */
  wrong: number;
  /** Number of expected values that the model did not extract. */
  missed: number;
};

/** Tallies by field. */
export type Tallies = ReadonlyMap<string, Tally>;

/** A field with a wrong value. */
export type Difference = { field: string; expected: unknown; found: unknown };

function emptyTally(): Tally {
  return { right: 0, wrong: 0, missed: 0 };
}

/** Returns an empty tally for each field. */
export function createEmptyTallies(): Tallies {
  return new Map(JUDGED_FIELDS.map((name) => [name, emptyTally()]));
}

/** Returns the tally of an evaluated field. */
export function getTally(tallies: Tallies, name: string): Tally {
  return tallies.get(name) ?? emptyTally();
}

/** Computes the precision: the correct share of the extracted values. Null if there are none. */
export function computePrecision({ right, wrong }: Tally): number | null {
  return right + wrong === 0 ? null : right / (right + wrong);
}

/** Computes the recall: the extracted share of the expected values. Null if there are none. */
export function computeRecall({ right, missed }: Tally): number | null {
  return right + missed === 0 ? null : right / (right + missed);
}

/** Returns the sum of all fields except `is_listing`. */
export function sumTallies(tallies: Tallies): Tally {
  const sum = emptyTally();
  for (const [name, tally] of tallies) if (name !== 'is_listing') add(sum, tally);
  return sum;
}

/**
 * Adds the values of one text to the tallies.
 * @param reading Undefined if the model returned no usable completion.
 * @returns The fields with wrong values.
 */
export function scoreText(
  tallies: Tallies,
  expected: ExpectedValues,
  reading: TrialExtraction | undefined,
): Difference[] {
  const found: Partial<Record<string, unknown>> = { ...reading?.facts };
  found['is_listing'] = reading?.isListing;
  return JUDGED_FIELDS.filter((field) => expected[field] !== undefined).flatMap((field) => {
    const tally = judge(field, expected[field], found[field]);
    add(getTally(tallies, field), tally);
    return tally.wrong + tally.missed === 0
      ? []
      : [{ field, expected: expected[field], found: found[field] ?? null }];
  });
}

function judge(field: string, expected: unknown, found: unknown): Tally {
  const forms = new Set(listOf(expected).map((value) => comparable(field, value)));
  const values = new Set(listOf(found).map((value) => comparable(field, value)));
  const right = values.intersection(forms).size;
  const wrong = values.size - right;
  // A list needs all of its items. Other fields need one of the alternatives.
  const wanted = find(field)?.kind === 'list' ? forms.size : Math.min(forms.size, 1);
  return { right, wrong, missed: wanted - Math.min(right, wanted) };
}

/** Returns the values of a field as a list. False counts as no value. */
function listOf(value: unknown): unknown[] {
  if (value === null || value === undefined || value === false) return [];
  return Array.isArray(value) ? value : [value];
}

/** Returns the definition of a field. Undefined for `is_listing`. */
function find(field: string): Field | undefined {
  const name = FIELD_NAMES.find((known) => known === field);
  return name && getField(name);
}

/** Normalizes a value for comparison. Names are compared by words, phone numbers by digits. */
function comparable(field: string, value: unknown): unknown {
  const { evaluation } = find(field) ?? {};
  if (typeof value !== 'string') return value;
  if (evaluation === 'digits') return value.replaceAll(/\D/g, '');
  if (evaluation !== 'words') return value;
  return normaliseText(value)
    .split(/[^\p{L}\p{N}'/]+/u)
    .filter((word) => word !== '')
    .join(' ');
}

function add(sum: Tally, { right, wrong, missed }: Tally): void {
  sum.right += right;
  sum.wrong += wrong;
  sum.missed += missed;
}

/** Scores of a model. */
export type Scores = {
  tallies: Tallies;
  /** Fields with wrong values of each text. */
  differences: { text: string; fields: Difference[] }[];
  /** Texts without a usable completion. */
  failed: { text: string; code: string; message: string }[];
};

/** Scores the extractions of texts. An error counts as an empty extraction. */
export function scoreTexts(
  texts: readonly GoldenText[],
  readings: ReadonlyMap<GoldenText, TrialExtraction | ModelError>,
): Scores {
  const tallies = createEmptyTallies();
  const differences: Scores['differences'] = [];
  const failed: Scores['failed'] = [];
  for (const text of texts) {
    const reading = readings.get(text);
    const isFailure = reading instanceof ModelError;
    const fields = scoreText(tallies, text.expected, isFailure ? undefined : reading);
    if (isFailure) failed.push({ text: text.name, code: reading.code, message: reading.message });
    else if (fields.length > 0) differences.push({ text: text.name, fields });
  }
  return { tallies, differences, failed };
}
