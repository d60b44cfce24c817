import { createHash } from 'node:crypto';
import { type Static, Type } from 'typebox';
import { Value } from 'typebox/value';
import { problem } from '../errors.ts';
import type { SearchFilters } from './schemas.ts';

/**
 * Where a page ended. Ranks tie often, so the place is a rank and an id; `newestId` keeps listings that
 * came after the first page from shifting what the next pages rank.
 */
export type Position = { rank: number; id: number; newestId: number };

/** What a cursor belongs to: it serves for the same search only. */
export type Search = {
  kind: 'fulltext' | 'hybrid';
  text: string;
  filters: SearchFilters;
  /** Whether of likely duplicates one alone is shown. */
  folded: boolean;
};

/** Raised when what a cursor holds changes, so that cursors of before are refused, not misread. */
const VERSION = 2;

const id = Type.Integer({ minimum: 0, maximum: Number.MAX_SAFE_INTEGER });
const content = Type.Object(
  { v: Type.Literal(VERSION), q: Type.String(), r: Type.Number(), i: id, n: id },
  { additionalProperties: false },
);

/** Writes a position as an opaque text. */
export function writeCursor(search: Search, { rank, id: last, newestId }: Position): string {
  const value: Static<typeof content> = {
    v: VERSION,
    q: fingerprint(search),
    r: rank,
    i: last,
    n: newestId,
  };
  return Buffer.from(JSON.stringify(value)).toString('base64url');
}

/** @throws ProblemError `validation_failed` where the text is no cursor of this search. */
export function readCursor(search: Search, text: string): Position {
  const value = decode(text);
  if (!Value.Check(content, value) || !isReal(value.r) || value.q !== fingerprint(search)) {
    const message = 'must be the next_cursor of a page of this same search';
    throw problem('validation_failed', { errors: [{ path: 'body/cursor', message }] });
  }
  return { rank: value.r, id: value.i, newestId: value.n };
}

/** Whether PostgreSQL's `real`, the type of a rank, can hold a number. */
function isReal(number: number): boolean {
  const rounded = Math.fround(number);
  return Number.isFinite(rounded) && (rounded !== 0 || number === 0);
}

function decode(text: string): unknown {
  try {
    return JSON.parse(Buffer.from(text, 'base64url').toString());
  } catch {
    return undefined;
  }
}

function fingerprint({ kind, text, filters, folded }: Search): string {
  const sorted = Object.entries(filters).toSorted(([a], [b]) => (a < b ? -1 : 1));
  const identity = JSON.stringify([kind, text, sorted, folded]);
  return createHash('sha256').update(identity).digest('base64url').slice(0, 16);
}
