import { normaliseText, type TrialReading } from '@oselya/collector';
import { type Expected, type Field, GOLDEN_FIELDS } from './golden.ts';

/** How the values of one field were read. A wrong value in place of the right one counts as both. */
export type Tally = {
  /** Values that were read as they should be. */
  right: number;
  /** Values that were read, and are others or are not there. */
  wrong: number;
  /** Values that are there, and were not read. */
  missed: number;
};

/** How the values of each field were read. */
export type Tallies = Record<Field, Tally>;

/** A field that was read in another way than it should be. */
export type Difference = { field: Field; expected: unknown; found: unknown };

/** A tally before anything is counted. */
function emptyTally(): Tally {
  return { right: 0, wrong: 0, missed: 0 };
}

/** A tally of each field before anything is counted. */
export function emptyTallies(): Tallies {
  // Each field has its tally, which the type of `fromEntries` cannot say.
  return Object.fromEntries(GOLDEN_FIELDS.map((field) => [field, emptyTally()])) as Tallies;
}

/** Of the values that were read, the share that is right; null where none was read. */
export function precision({ right, wrong }: Tally): number | null {
  return right + wrong === 0 ? null : right / (right + wrong);
}

/** Of the values that are there, the share that was read; null where there are none. */
export function recall({ right, missed }: Tally): number | null {
  return right + missed === 0 ? null : right / (right + missed);
}

/** All fields together, `is_listing` apart: that is no value that somebody searches for. */
export function sumOf(tallies: Tallies): Tally {
  const sum = emptyTally();
  for (const field of GOLDEN_FIELDS) {
    if (field !== 'is_listing') add(sum, tallies[field]);
  }
  return sum;
}

/**
 * Counts one text, field by field.
 * @param reading Undefined where the model gave no answer that can be used: nothing was read.
 * @returns What is not as it should be.
 */
export function score(
  tallies: Tallies,
  expected: Expected,
  reading: TrialReading | undefined,
): Difference[] {
  const found: Partial<Record<string, unknown>> = { ...reading?.facts };
  found['is_listing'] = reading?.isListing;
  return GOLDEN_FIELDS.filter((field) => expected[field] !== undefined).flatMap((field) => {
    const tally = judge(field, expected[field], found[field]);
    add(tallies[field], tally);
    return tally.wrong + tally.missed === 0
      ? []
      : [{ field, expected: expected[field], found: found[field] ?? null }];
  });
}

function judge(field: Field, expected: unknown, found: unknown): Tally {
  const forms = new Set(listOf(expected).map((value) => comparable(field, value)));
  const values = new Set(listOf(found).map((value) => comparable(field, value)));
  const right = values.intersection(forms).size;
  const wrong = values.size - right;
  // Of phones each is expected, of other fields any one form.
  const wanted = field === 'phones' ? forms.size : Math.min(forms.size, 1);
  return { right, wrong, missed: wanted - Math.min(right, wanted) };
}

/** What is there: nothing is null, missing, or that a text is no listing. */
function listOf(value: unknown): unknown[] {
  if (value === null || value === undefined || value === false) return [];
  return Array.isArray(value) ? value : [value];
}

const WORDS: ReadonlySet<Field> = new Set(['city', 'district', 'address', 'contact_name']);

/** A value as it is compared: names by their words, phones by their digits, all else as it is. */
function comparable(field: Field, value: unknown): unknown {
  if (typeof value !== 'string') return value;
  if (field === 'phones') return value.replaceAll(/\D/g, '');
  if (!WORDS.has(field)) return value;
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
