import { createHash } from 'node:crypto';
import { createCursorCodec } from '@oselya/kit';
import { type Static, type TSchema, Type } from 'typebox';
import { Value } from 'typebox/value';
import { problem } from '../errors.ts';
import type { SearchFilters } from './filter-schemas.ts';

const cursorError = {
  path: 'body/cursor',
  message: 'must be the next_cursor of a page of the same search',
};

/** Cursor of one search: reads and writes positions in its results. */
export type SearchCursor<Position> = {
  /** @throws ProblemError `validation_failed` if the cursor is invalid or belongs to a different search. */
  read(cursor: string | undefined): Position | undefined;
  write(position: Position): string;
};

const codec = createCursorCodec(
  Type.Object({ search: Type.String(), position: Type.Unknown() }, { additionalProperties: false }),
  cursorError,
);

/**
 * Returns a function that creates the cursor of a search from its filters and options.
 * @param positionSchema Schema of a position in the results.
 */
export const defineSearchCursor =
  <Position extends TSchema>(positionSchema: Position) =>
  (filters: SearchFilters, ...parts: readonly unknown[]): SearchCursor<Static<Position>> => {
    const search = hashSearch(filters, parts);
    return {
      read(text) {
        const cursor = codec.read(text);
        if (cursor === undefined) return undefined;
        if (cursor.search === search && Value.Check(positionSchema, cursor.position))
          return cursor.position;
        throw problem('validation_failed', { errors: [cursorError] });
      },
      write: (position) => codec.write({ search, position }),
    };
  };

/** Returns a hash of a search, which does not depend on the order of the filters. */
function hashSearch(filters: SearchFilters, parts: readonly unknown[]): string {
  const entries = Object.entries(filters).toSorted(([a], [b]) => (a < b ? -1 : 1));
  const hash = createHash('sha256').update(JSON.stringify([entries, ...parts]));
  return hash.digest('base64url').slice(0, 16);
}
