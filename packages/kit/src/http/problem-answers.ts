import { Type } from 'typebox';
import { type ErrorDefinition, ProblemError } from '../problems.ts';
import { type ProblemBody, problemBody } from './problem-body.ts';

/**
 * Makes the function that describes which errors of an app's table a route can answer: response
 * schemas, with an example of each error. It takes codes, and statuses for the first error of the
 * table that has them, as in `answers(401, 'tea_only', 422)`; 500 is added to all.
 * @throws Error where no error has a status; routes are described at the start.
 */
export function describeProblems<Code extends string>(
  table: Readonly<Record<Code, ErrorDefinition>>,
) {
  // The keys of a table are its codes, which its type says and Object.keys forgets.
  const codes = Object.keys(table) as Code[];

  function toCode(answer: Code | number): Code {
    if (typeof answer === 'string') return answer;
    const first = codes.find((code) => table[code].status === answer);
    if (first === undefined) throw new Error(`The error table has no error of status ${answer}`);
    return first;
  }

  return (...answers: readonly (Code | number)[]) => {
    const named = [...answers, 500].map(toCode);
    const byStatus = Map.groupBy(named, (code) => table[code].status);
    return Object.fromEntries(
      [...byStatus].map(([status, of]) => [
        status,
        {
          description: of.map((code) => table[code].title).join('; '),
          content: {
            'application/problem+json': {
              schema: Type.Ref('Problem'),
              examples: Object.fromEntries(
                of.map((code) => [code, { value: exampleOf(code, table[code]) }]),
              ),
            },
          },
        },
      ]),
    );
  };
}

const REQUEST_ID = '2f1d9c52-6a0e-4a39-9c55-0f6c1f8f5b1e';

/** The answer where nothing more is known of the error than its row in the table. */
function exampleOf(code: string, definition: ErrorDefinition): ProblemBody {
  const errors = [{ path: 'querystring/limit', message: 'must be >= 1' }];
  const details = code === 'validation_failed' ? { errors } : {};
  return problemBody(new ProblemError(code, definition, details), REQUEST_ID);
}
