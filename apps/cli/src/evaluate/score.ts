import { ModelError, normalizeText, type TrialExtraction } from '@oselya/collector';
import { FIELD_NAMES, getField } from '@oselya/collector/fields';
import { type ExpectedValues, type GoldenText, EVALUATED_FIELDS } from './golden.ts';

/** Counts of a field's values. A value in place of the expected one counts as both wrong and missed. */
export type Tally = {
  right: number;
  /** Number of extracted values that are not expected. */
  wrong: number;
  /** Number of expected values that the model did not extract. */
  missed: number;
};

type Tallies = ReadonlyMap<string, Tally>;

export type Difference = { field: string; expected: unknown; found: unknown };

const createTally = (): Tally => ({ right: 0, wrong: 0, missed: 0 });

/** Creates an empty tally for each field. */
export function createTallies(): Tallies {
  return new Map(EVALUATED_FIELDS.map((field) => [field, createTally()]));
}

/** Computes the precision: the correct share of the extracted values. Returns null if there are none. */
export function computePrecision({ right, wrong }: Tally): number | null {
  return right + wrong === 0 ? null : right / (right + wrong);
}

/** Computes the recall: the extracted share of the expected values. Returns null if there are none. */
export function computeRecall({ right, missed }: Tally): number | null {
  return right + missed === 0 ? null : right / (right + missed);
}

/** Returns the sum of the tallies of all fields except `is_listing`. */
export function sumTallies(tallies: Tallies): Tally {
  const sum = createTally();
  for (const [field, tally] of tallies) if (field !== 'is_listing') addTally(sum, tally);
  return sum;
}

/**
 * Adds the values of one text to the tallies.
 * @param extraction Undefined if the model returned no usable completion.
 * @returns The fields with wrong or missed values.
 */
export function scoreText(
  tallies: Tallies,
  expected: ExpectedValues,
  extraction: TrialExtraction | undefined,
): Difference[] {
  const extractedValues: Record<string, unknown> = {
    ...extraction?.facts,
    is_listing: extraction?.isListing,
  };
  const differences: Difference[] = [];
  for (const [field, sum] of tallies) {
    if (expected[field] === undefined) continue;
    const tally = compareValues(field, expected[field], extractedValues[field]);
    addTally(sum, tally);
    if (tally.wrong + tally.missed === 0) continue;
    differences.push({ field, expected: expected[field], found: extractedValues[field] ?? null });
  }
  return differences;
}

function compareValues(field: string, expected: unknown, foundValue: unknown): Tally {
  const definition = findField(field);
  const normalizeAll = (value: unknown) =>
    new Set(toList(value).map((element) => normalizeValue(element, definition?.evaluation)));
  const [alternatives, values] = [normalizeAll(expected), normalizeAll(foundValue)];
  const right = values.intersection(alternatives).size;
  // A list needs all of its items. Other fields need one of the alternatives.
  const expectedCount =
    definition?.kind === 'list' ? alternatives.size : Math.min(alternatives.size, 1);
  return {
    right,
    wrong: values.size - right,
    missed: expectedCount - Math.min(right, expectedCount),
  };
}

/** Returns the values of a field as a list. False counts as no value. */
function toList(value: unknown): unknown[] {
  if (value === null || value === undefined || value === false) return [];
  return Array.isArray(value) ? value : [value];
}

function findField(field: string) {
  const name = FIELD_NAMES.find((fieldName) => fieldName === field);
  return name && getField(name);
}

/** Normalizes a value for comparison. Names are compared by words, phone numbers by digits. */
function normalizeValue(value: unknown, comparison: string | undefined): unknown {
  if (typeof value !== 'string') return value;
  if (comparison === 'digits') return value.replaceAll(/\D/g, '');
  if (comparison !== 'words') return value;
  const words = normalizeText(value).split(/[^\p{L}\p{N}'/]+/u);
  return words.filter((word) => word !== '').join(' ');
}

function addTally(sum: Tally, { right, wrong, missed }: Tally): void {
  sum.right += right;
  sum.wrong += wrong;
  sum.missed += missed;
}

/** Whether each judged field of a text is right, including a field without a value that the model left empty. */
export type Outcome = ReadonlyMap<string, boolean>;

/** Name of the outcome that is right if all fields of a text are. */
export const ALL_FIELDS = 'whole text';

/**
 * Creates the outcome of a text.
 * @param wrongFields Undefined if the model returned no usable completion, which makes all fields wrong.
 */
export function createOutcome(
  expected: ExpectedValues,
  wrongFields: readonly string[] | undefined,
): Outcome {
  const judgedFields = EVALUATED_FIELDS.filter((field) => expected[field] !== undefined);
  const isCorrect = (field: string) => wrongFields?.includes(field) === false;
  return new Map([
    ...judgedFields.map((field) => [field, isCorrect(field)] as const),
    [ALL_FIELDS, judgedFields.every(isCorrect)],
  ]);
}

/** Counts the texts that have a field judged, and those of them that have it right. */
export function countCorrect(
  outcomes: readonly Outcome[],
  field: string,
): { texts: number; correct: number } {
  const judged = outcomes.flatMap((outcome) => outcome.get(field) ?? []);
  return { texts: judged.length, correct: judged.filter(Boolean).length };
}

export type Scores = {
  tallies: Tallies;
  /** Outcomes in the order of the texts. */
  outcomes: Outcome[];
  differences: { text: string; fields: Difference[] }[];
  /** Texts without a usable completion. */
  failures: { text: string; code: string; message: string }[];
};

/** Scores the extractions of texts. An error counts as an empty extraction. */
export function scoreTexts(
  texts: readonly GoldenText[],
  extractions: ReadonlyMap<GoldenText, TrialExtraction | ModelError>,
): Scores {
  const scores: Scores = { tallies: createTallies(), outcomes: [], differences: [], failures: [] };
  for (const text of texts) {
    const extraction = extractions.get(text);
    const error = extraction instanceof ModelError ? extraction : undefined;
    const usableExtraction = extraction instanceof ModelError ? undefined : extraction;
    const fields = scoreText(scores.tallies, text.expected, usableExtraction);
    const wrongFields = fields.map(({ field }) => field);
    scores.outcomes.push(createOutcome(text.expected, usableExtraction && wrongFields));
    if (error) scores.failures.push({ text: text.name, code: error.code, message: error.message });
    else if (fields.length > 0) scores.differences.push({ text: text.name, fields });
  }
  return scores;
}
