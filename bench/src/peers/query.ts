import type { NumberColumn, TextColumn } from './documents.ts';

/**
 * Kinds of search: by words; by words with filters; without words by price, with filters; nearest vectors; and counts by
 * city, deal, type and number of rooms of the matches of words.
 */
export const KINDS = ['words', 'filtered', 'by price', 'vector', 'facets'] as const;
export type Kind = (typeof KINDS)[number];

/** Terms near each other, of which most alternatives have one, and terms that a listing must not have. */
export type Alternative = { terms: string[]; without: string[] };

export type Filters = Partial<
  Record<`${NumberColumn}_min` | `${NumberColumn}_max`, number> & Record<TextColumn, string>
>;

export type Question = {
  kind: Kind;
  /** Words as a user writes them, for the collector; empty for a search without words. */
  query: string;
  /** The same words as stems. A listing matches a group if it matches one of its alternatives. */
  groups: Alternative[][];
  /** Whether a listing that matches one group is found; otherwise it must match all. */
  isAny?: boolean;
  filters: Filters;
  vector?: number[];
  limit: number;
};

/** Syntax of an engine's query language. */
export type Syntax = {
  and: string;
  or: string;
  /** Writes terms that are near each other; one term is as it is. */
  near: (terms: readonly string[]) => string;
  not: (positive: string, excluded: readonly string[]) => string;
};

/** Returns the words of a question in the query language of an engine. */
export function formatWords({ groups, isAny = false }: Question, syntax: Syntax): string {
  const formatAlternative = ({ terms, without }: Alternative) => {
    const [term = ''] = terms;
    const positive = terms.length === 1 ? term : syntax.near(terms);
    return without.length === 0 ? positive : `(${syntax.not(positive, without)})`;
  };
  return groups
    .map((alternatives) => `(${alternatives.map(formatAlternative).join(syntax.or)})`)
    .join(isAny ? syntax.or : syntax.and);
}

/** Returns the conditions of filters as expressions: `price >= 10`. */
export function formatConditions(
  filters: Filters,
  { equal, quote }: { equal: string; quote: (text: string) => string },
): string[] {
  return Object.entries(filters).map(([name, value]) => {
    const [, column = name, bound] = /^(.+)_(min|max)$/.exec(name) ?? [];
    const operator = bound === undefined ? equal : bound === 'min' ? '>=' : '<=';
    return `${column} ${operator} ${typeof value === 'string' ? quote(value) : value}`;
  });
}

/** Returns a text as a literal of SQL. No text of a filter has a quotation mark. */
export const quoteSql = (text: string): string => `'${text}'`;
