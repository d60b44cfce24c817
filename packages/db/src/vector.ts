/**
 * Writes a vector as pgvector reads it: `[0.1,0.2]`.
 * @throws RangeError for a number that is not finite, naming its place, as pgvector's own refusal does not.
 */
export function toVector(numbers: readonly number[]): string {
  const bad = numbers.findIndex((number) => !Number.isFinite(number));
  if (bad !== -1) throw new RangeError(`Element ${bad} of the vector is not a finite number`);
  return `[${numbers.join(',')}]`;
}
