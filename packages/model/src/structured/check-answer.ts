import type { Static, TSchema } from 'typebox';
import { Compile, type Validator } from 'typebox/compile';
import { ModelError } from '../errors.ts';
import { jsonAnswer } from './json-answer.ts';

/**
 * An answer that failed its schema. The answer itself is kept for the repair, but in a private
 * field, because loggers print what they can reach and it is made of people's texts.
 */
export class InvalidAnswer extends ModelError {
  readonly problems: readonly string[];
  readonly #answer: string;

  constructor(answer: string, problems: readonly string[]) {
    super('MODEL_INVALID_OUTPUT', `The model's answer fails its schema: ${problems.join('; ')}.`);
    this.problems = problems;
    this.#answer = answer;
  }

  get answer(): string {
    return this.#answer;
  }
}

const validators = new WeakMap<TSchema, Validator>();

/**
 * Reads a model's answer by a schema, whatever the server promised about it: unknown keys are
 * dropped first, at every depth (Specification 001, Errors), and what remains must be valid.
 *
 * @throws InvalidAnswer with at most eight problems, where TypeBox stops: each a JSON pointer and the rule
 *   it breaks.
 */
export function checkAnswer<S extends TSchema>(schema: S, answer: string): Static<S> {
  let parsed: unknown;
  try {
    parsed = jsonAnswer(answer);
  } catch {
    throw new InvalidAnswer(answer, ['it is not one JSON value']);
  }
  const validator = validatorOf(schema);
  // The value was parsed here and belongs to nobody else, so it may be cleaned in place.
  const value = validator.Clean(parsed);
  // The validators are kept by schema, which their common type cannot say.
  const follows = (candidate: unknown): candidate is Static<S> => validator.Check(candidate);
  if (follows(value)) return value;
  const problems = validator
    .Errors(value)
    .map(({ instancePath, message }) => `${instancePath || 'the answer'} ${message}`);
  throw new InvalidAnswer(answer, [...new Set(problems)]);
}

function validatorOf(schema: TSchema): Validator {
  const known = validators.get(schema);
  if (known) return known;
  const validator = Compile(schema);
  validators.set(schema, validator);
  return validator;
}
