import { ModelError, normaliseText, type TrialExtraction } from '@oselya/collector';
import { type Field, FIELD_NAMES, getField } from '@oselya/collector/fields';
import { type ExpectedValues, type GoldenText, JUDGED_FIELDS } from './golden.ts';

/** The counts of a field's values. A wrong value in place of the right one counts as wrong and as missed. */
export type Tally = {
  right: number;
  /** Values that the text does not have. */
  wrong: number;
  /** Values that the text has and the model did not read. */
  missed: number;
};

/** The tally of each field. */
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

/** Returns the tally of a judged field. */
export function getTally(tallies: Tallies, name: string): Tally {
  return tallies.get(name) ?? emptyTally();
}

/** Returns the share of the read values that is right; null if none was read. */
export function computePrecision({ right, wrong }: Tally): number | null {
  return right + wrong === 0 ? null : right / (right + wrong);
}

/** Returns the share of the expected values that was read; null if there are none. */
export function computeRecall({ right, missed }: Tally): number | null {
  return right + missed === 0 ? null : right / (right + missed);
}

/** Returns the sum of all fields but `is_listing`, which is no field of a listing. */
export function sumTallies(tallies: Tallies): Tally {
  const sum = emptyTally();
  for (const [name, tally] of tallies) if (name !== 'is_listing') add(sum, tally);
  return sum;
}

/**
 * Counts the values of one text by field.
 * @param reading Undefined if the model gave no usable answer.
 * @returns The wrong fields.
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
  // Every item of a list is expected, of other fields any one form.
  const wanted = find(field)?.kind === 'list' ? forms.size : Math.min(forms.size, 1);
  return { right, wrong, missed: wanted - Math.min(right, wanted) };
}

/** Returns the values of a field. `is_listing` has one if it is true. */
function listOf(value: unknown): unknown[] {
  if (value === null || value === undefined || value === false) return [];
  return Array.isArray(value) ? value : [value];
}

/** Returns the entry of a field; `is_listing` has none. */
function find(field: string): Field | undefined {
  const name = FIELD_NAMES.find((known) => known === field);
  return name && getField(name);
}

/** Normalizes a value for comparison: names by their words, phone numbers by their digits. */
function comparable(field: string, value: unknown): unknown {
  const { judged } = find(field) ?? {};
  if (typeof value !== 'string') return value;
  if (judged === 'digits') return value.replaceAll(/\D/g, '');
  if (judged !== 'words') return value;
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

/** The scores of a model on texts. */
export type Scores = {
  tallies: Tallies;
  /** The wrong fields of each text, by its name. */
  differences: { text: string; fields: Difference[] }[];
  /** Texts without a usable answer. */
  failed: { text: string; code: string; message: string }[];
};

/** Scores the readings of texts; a reading that is an error counts as nothing read. */
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
