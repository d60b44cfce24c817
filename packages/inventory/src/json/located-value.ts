import type { Position } from '../finding.ts';

/** A position that also says which UTF-16 code unit of the parsed text it is. */
export type Mark = {
  offset: number;
} & Position;

/** The position of a mark by itself. */
export function placeOf({ line, column }: Mark): Position {
  return { line, column };
}

/** A key that its object already had. */
export type DuplicateKey = {
  key: string;
  /** The keys and indices that lead to the member. They are not joined here, as they may be long. */
  path: (string | number)[];
  first: Mark;
  again: Mark;
};

/** Where the parts of one value stand. */
export type LocatedValue = {
  start: Mark;
  /**
   * The members of the value itself, when it is an object: where the key stands first, and where the value, of equal
   * keys that of the last one.
   */
  members: Map<string, { key: Mark; start: Mark; end: number }>;
  /** In the order of the text, and no more than `MAX_REPEATED_KEYS`. */
  duplicates: DuplicateKey[];
  /** How many more keys are repeated, and where the first of those stands; null when all are in the list. */
  moreDuplicates: { count: number; first: Mark } | null;
};
