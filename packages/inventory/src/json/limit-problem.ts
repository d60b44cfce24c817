import type { Position, Problem } from '../finding.ts';
import { MAX_DEPTH, MAX_RECORD_BYTES } from '../limits.ts';

/**
 * The problem of a value that is larger than the limit.
 * @param position Where it begins.
 * @param rest What is not read because of it.
 */
export function tooLarge(position: Position, rest: string): Problem {
  const limit = MAX_RECORD_BYTES / 1024 / 1024;
  const message = `this value is larger than ${limit} MiB; make it smaller: ${rest}`;
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
