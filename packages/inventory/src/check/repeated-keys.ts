import { type LocatedValue, placeOf } from '../json/located-value.ts';
import { pointerTo } from '../json/pointer.ts';
import { quoted } from '../shorten.ts';
import { excerptAt } from '../excerpt.ts';
import type { RecordProblem } from './record-problem.ts';

/** What is wrong with the keys of a record, in the order of its text: those that their objects already had. */
export function* repeatedKeyProblems(
  text: string,
  { duplicates, moreDuplicates }: LocatedValue,
): Generator<RecordProblem> {
  for (const { key, path, first, again } of duplicates) {
    yield {
      code: 'json/duplicate-key',
      message: `the key ${quoted(key)} is already in this object, at ${first.line}:${first.column}`,
      pointer: pointerTo(path),
      position: placeOf(again),
      excerpt: excerptAt(text, again.offset),
      related: [{ ...placeOf(first), message: `${quoted(key)} stands here first` }],
    };
  }
  if (moreDuplicates === null) return;
  const { count, first } = moreDuplicates;
  yield {
    code: 'json/duplicate-key',
    message: `from here on ${count} more of the record's keys are repeated; they are not told one by one`,
    pointer: '',
    position: placeOf(first),
    excerpt: excerptAt(text, first.offset),
  };
}
