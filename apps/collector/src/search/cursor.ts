import { createHash } from 'node:crypto';
import { cursors } from '@oselya/kit';
import { Type } from 'typebox';
import { problem } from '../errors.ts';
import { MAX_ID } from '../schemas.ts';
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

const id = Type.Integer({ minimum: 0, maximum: MAX_ID });
const content = Type.Object(
  { v: Type.Literal(VERSION), q: Type.String(), r: Type.Number(), i: id, n: id },
  { additionalProperties: false },
);

const refusal = {
  path: 'body/cursor',
  message: 'must be the next_cursor of a page of this same search',
};
const contents = cursors(content, refusal);

/** Writes a position as an opaque text. */
export function writeCursor(search: Search, { rank, id: last, newestId }: Position): string {
  return contents.write({ v: VERSION, q: fingerprint(search), r: rank, i: last, n: newestId });
}

/** @throws ProblemError `validation_failed` where the text is no cursor of this search. */
export function readCursor(search: Search, text: string): Position {
  const value = contents.read(text);
  if (value === undefined || !isReal(value.r) || value.q !== fingerprint(search)) {
    throw problem('validation_failed', { errors: [refusal] });
  }
  return { rank: value.r, id: value.i, newestId: value.n };
}

/** Whether PostgreSQL's `real`, the type of a rank, can hold a number. */
function isReal(number: number): boolean {
  const rounded = Math.fround(number);
  return Number.isFinite(rounded) && (rounded !== 0 || number === 0);
}

function fingerprint({ kind, text, filters, folded }: Search): string {
  const sorted = Object.entries(filters).toSorted(([a], [b]) => (a < b ? -1 : 1));
  const identity = JSON.stringify([kind, text, sorted, folded]);
  return createHash('sha256').update(identity).digest('base64url').slice(0, 16);
}
