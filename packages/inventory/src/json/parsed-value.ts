import { MAX_DEPTH, MAX_RECORD_PARTS } from '../limits.ts';

/** A value that `JSON.parse` gave. */
export type ParsedValue = {
  value: unknown;
  /** How many strings it has, keys included. A text with repeated keys has more: parsing keeps one key of each name. */
  strings: number;
};

/** The size of a parsed value. */
export type Parts = {
  /** Strings, keys included; NaN when it is nested deeper than the validator reads. */
  strings: number;
  /** Objects and lists. */
  containers: number;
};

/** Parses a text; null when it is no JSON, or beyond a limit of the validator. */
export function parseValue(text: string): ParsedValue | null {
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch {
    return null;
  }
  const parts = countParts(value);
  return parts && { value, strings: parts.strings };
}

/** Counts the parts of a parsed value; null when they are beyond a limit of the validator. */
export function countParts(value: unknown): Parts | null {
  const parts = { strings: 0, containers: 0 };
  addParts(value, parts, 1);
  return parts.strings + parts.containers <= MAX_RECORD_PARTS ? parts : null;
}

function addParts(value: unknown, parts: Parts, depth: number): void {
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
