import { MAX_DEPTH } from '../limits.ts';

/** How much there is in a parsed value. */
export type Parts = {
  /**
   * Strings, keys included; NaN when it is nested deeper than the validator reads. Text with repeated keys has more
   * of them, since parsing keeps one key of each name.
   */
  strings: number;
  /** Objects and lists. */
  containers: number;
};

/** Adds what a parsed value has to what was counted. */
export function addParts(value: unknown, parts: Parts, depth = 1): void {
  if (typeof value === 'string') parts.strings += 1;
  if (typeof value !== 'object' || value === null) return;
  parts.containers += 1;
  if (depth > MAX_DEPTH) {
    parts.strings = NaN;
  } else if (Array.isArray(value)) {
    for (const item of value) addParts(item, parts, depth + 1);
  } else {
    // Parsed objects inherit no enumerable property, and this is the fastest way through their own.
    for (const key in value) {
      parts.strings += 1;
      addParts(value[key as keyof typeof value], parts, depth + 1);
    }
  }
}
