import { MAX_DEPTH } from '../limits.ts';

/**
 * How many strings a parsed value has, keys included; NaN when it is nested deeper than the validator reads.
 * Text with repeated keys has more of them, since parsing keeps one key of each name.
 */
export function countStrings(value: unknown, depth = 1): number {
  if (typeof value === 'string') return 1;
  if (typeof value !== 'object' || value === null) return 0;
  if (depth > MAX_DEPTH) return NaN;
  let count = 0;
  if (Array.isArray(value)) {
    for (const item of value) count += countStrings(item, depth + 1);
    return count;
  }
  // Parsed objects inherit no enumerable property, and this is the fastest way through their own.
  for (const key in value) {
    count += 1 + countStrings(value[key as keyof typeof value], depth + 1);
  }
  return count;
}
