import { infiniteQueryOptions, queryOptions } from '@tanstack/react-query';
import { request, requestPart } from '../api.ts';
import type { Listing } from '../listings/types.ts';
import { type Filters, readSearch, type Search } from '../search/address.ts';

/** Words and filters of a saved search, as the server keeps them. */
export type SavedFilters = Filters & { query?: string };

export type SavedSearch = {
  id: string;
  name: string;
  search: SavedFilters;
  session_id: string | null;
  every_minutes: number;
  paused: boolean;
  created_at: string;
  /** Time of the last digest, or null. */
  told_at: string | null;
};

/** Listing that a saved search has found. */
export type Find = {
  listing_id: number;
  reason: string;
  old_price: number | null;
  found_at: string;
  told_at: string | null;
};

export const savedSearchesQuery = queryOptions({
  queryKey: ['saved-searches'],
  // The maximum number of searches is one page.
  queryFn: ({ signal }) => request<SavedSearch[]>('/saved-searches', { signal }),
});

export const findsQuery = (id: string) =>
  infiniteQueryOptions({
    queryKey: ['saved-searches', id, 'finds'],
    queryFn: ({ pageParam, signal }) => requestPart<Find[]>(pageParam, { signal }),
    initialPageParam: `/saved-searches/${id}/finds?limit=20`,
    getNextPageParam: ({ next }) => next,
  });

const PREVIEW_SIZE = 10;

/** Preview of a saved search: the best listings with all its words, or the newest without words. */
export const previewQuery = (search: SavedFilters, currency: string | null) =>
  queryOptions({
    queryKey: ['saved-searches', 'preview', search, currency],
    queryFn: ({ signal }) =>
      request<{
        items: { listing: Listing }[];
        total: { value: number; relation: 'eq' | 'gte' };
      }>(search.query === undefined ? '/listings/browse' : '/listings/search', {
        method: 'POST',
        body: {
          ...search,
          // Saved searches match the words as they are written.
          ...(search.query !== undefined && { mode: 'words' }),
          limit: PREVIEW_SIZE,
          fold_duplicates: true,
          ...(search.currency === undefined && currency !== null && { currency }),
        },
        signal,
      }),
  });

/** Returns the filters of a search in an address. A saved search has neither order nor mode. */
export const toSavedFilters = ({
  q,
  sort: _sort,
  mode: _mode,
  ...filters
}: Search): SavedFilters => ({
  ...(q !== undefined && { query: q }),
  ...filters,
});

/** Returns the search in an address that finds what a saved search finds. A stored filter may be one text or several. */
export function toSearch({ query, ...filters }: SavedFilters): Search {
  const params = new URLSearchParams(query === undefined ? [] : [['q', query]]);
  for (const [name, value] of Object.entries(filters)) {
    for (const item of [value ?? []].flat()) params.append(name, String(item));
  }
  return readSearch(params);
}
