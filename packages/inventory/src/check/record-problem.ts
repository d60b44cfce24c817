import type { Problem } from '../finding.ts';

/** A problem inside of a record; the pointer leads from the record to what is wrong. */
export type RecordProblem = {
  pointer: string;
} & Problem;

/** Problems of one record in the order of its text. */
export function inOrder(problems: readonly RecordProblem[]): RecordProblem[] {
  return problems.toSorted(comparePlaces);
}

/** Two lists in the order of one text as one; of the first, each is made as it is taken. */
export function* merged(
  some: Iterable<RecordProblem>,
  waiting: readonly RecordProblem[],
): Generator<RecordProblem> {
  let next = 0;
  for (const problem of some) {
    for (
      let other = waiting[next];
      other !== undefined && comparePlaces(other, problem) < 0;
      other = waiting[next]
    ) {
      yield other;
      next += 1;
    }
    yield problem;
  }
  yield* waiting.slice(next);
}

function comparePlaces({ position: a }: Problem, { position: b }: Problem): number {
  return a.line - b.line || a.column - b.column;
}
