import { InvalidArgumentError } from 'commander';

// Written out, so that --help need not load the collector; a test holds it to the schema of a payload.
const SOURCE_SLUG = /^[a-z0-9][a-z0-9_-]{0,63}$/;

/**
 * A source's name, as an argument.
 * @throws InvalidArgumentError where no source can have it. Contract 4, PayloadSchema.
 */
export function sourceSlug(value: string): string {
  if (SOURCE_SLUG.test(value)) return value;
  throw new InvalidArgumentError(
    'A source slug has lower-case letters, digits, _ and -, at most 64 of them, and begins with a letter or a digit.',
  );
}

/**
 * A number of things, or an id, as an argument.
 * @throws InvalidArgumentError for anything else.
 */
export function wholeNumber(value: string): number {
  if (/^[1-9]\d{0,14}$/.test(value)) return Number(value);
  throw new InvalidArgumentError('It is a whole number from 1.');
}
