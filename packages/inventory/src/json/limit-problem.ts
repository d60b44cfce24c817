import type { Position, Problem } from '../finding.ts';
import { MAX_DEPTH, MAX_RECORD_BYTES, MAX_RECORD_PARTS } from '../limits.ts';

/**
 * The problem of a value that is larger than the limit.
 * @param position Where it begins.
 * @param rest What is not read because of it.
 */
export function tooLarge(position: Position, rest: string): Problem {
  const limit = MAX_RECORD_BYTES / 1024 / 1024;
  const message = `a record is at most ${limit} MiB large, and this one is larger; make it smaller: ${rest}`;
  return { code: 'limit/record-size', message, position };
}

/**
 * The problem of a value that holds more objects, lists and texts than the limit.
 * @param position Where it begins.
 * @param rest What is not read because of it.
 */
export function tooMany(position: Position, rest: string): Problem {
  const message = `a record has at most ${MAX_RECORD_PARTS} objects, lists and texts in it, and this one has more; make it smaller: ${rest}`;
  return { code: 'limit/record-size', message, position };
}

/**
 * The problem of a value that is nested deeper than the limit.
 * @param position Where it becomes too deep.
 * @param rest What is not read because of it.
 */
export function tooDeep(position: Position, rest: string): Problem {
  const message = `values are nested more than ${MAX_DEPTH} levels deep here; make them flatter: ${rest}`;
  return { code: 'limit/depth', message, position };
}
