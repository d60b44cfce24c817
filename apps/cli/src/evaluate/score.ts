import { normaliseText, type TrialReading } from '@oselya/collector';
import { type Field, FIELD_NAMES, fieldOf } from '@oselya/collector/fields';
import { type Expected, JUDGED } from './golden.ts';

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
export type Tallies = ReadonlyMap<string, Tally>;

/** A field that was read in another way than it should be. */
export type Difference = { field: string; expected: unknown; found: unknown };

/** A tally before anything is counted. */
function emptyTally(): Tally {
  return { right: 0, wrong: 0, missed: 0 };
}

/** Returns an empty tally for each field. */
export function emptyTallies(): Tallies {
  return new Map(JUDGED.map((name) => [name, emptyTally()]));
}

/** Returns the tally of a judged field. */
export function tallyOf(tallies: Tallies, name: string): Tally {
  return tallies.get(name) ?? emptyTally();
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
  for (const [name, tally] of tallies) if (name !== 'is_listing') add(sum, tally);
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
  return JUDGED.filter((field) => expected[field] !== undefined).flatMap((field) => {
    const tally = judge(field, expected[field], found[field]);
    add(tallyOf(tallies, field), tally);
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

/** What is there: nothing is null, missing, or that a text is no listing. */
function listOf(value: unknown): unknown[] {
  if (value === null || value === undefined || value === false) return [];
  return Array.isArray(value) ? value : [value];
}

/** The entry of a field; `is_listing` is none. */
function find(field: string): Field | undefined {
  const name = FIELD_NAMES.find((known) => known === field);
  return name && fieldOf(name);
}

/** A value as it is compared: names by their words, phone numbers by their digits, all else as it is. */
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
