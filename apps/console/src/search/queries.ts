import { infiniteQueryOptions, keepPreviousData, queryOptions } from '@tanstack/react-query';
import { request } from '../api.ts';
import type { Hit } from '../listings/types.ts';
import { createRequest, type Filters, type Search } from './address.ts';

/** Filters that the collector took out of the words. */
export type Understood = Pick<
  Filters,
  | 'price_min'
  | 'price_max'
  | 'price_per_m2_min'
  | 'price_per_m2_max'
  | 'currency'
  | 'area_min'
  | 'area_max'
  | 'rooms_min'
  | 'rooms_max'
  | 'floor_min'
  | 'floor_max'
> & { near?: { radius_m: number } };

export type Total = { value: number; relation: 'eq' | 'gte' };

/** Page of results. A search by meaning has no total and one page. */
export type ResultPage = {
  items: Hit[];
  total?: Total;
  currency: string;
  understood?: Understood;
  next_cursor?: string | null;
};

const PAGE_SIZE = 50;

/** Pages of a search. */
export const hitsQuery = (search: Search) =>
  infiniteQueryOptions({
    queryKey: ['hits', search],
    queryFn: ({ pageParam, signal }) => {
      const { path, body } = createRequest(search, { limit: PAGE_SIZE, cursor: pageParam });
      return request<ResultPage>(path, { method: 'POST', body, signal });
    },
    initialPageParam: '',
    getNextPageParam: ({ next_cursor: cursor }) => cursor ?? undefined,
    placeholderData: keepPreviousData,
    // Lists keep their order until the user asks for another one.
    staleTime: Infinity,
  });

export const LIST_FACETS = [
  'deal_type',
  'property_type',
  'city',
  'district',
  'features',
  'source_slug',
] as const;

export type FacetValue = { value: string | number | boolean; count: number; city?: string | null };
export type Bucket = { from: number; to: number; count: number };

export type Facets = {
  facets: Partial<Record<(typeof LIST_FACETS)[number] | 'rooms', FacetValue[]>> &
    Partial<Record<'price' | 'area_total', { buckets: Bucket[] }>>;
  total: Total;
  relation: Total['relation'];
  currency: string;
};

/** Counts of the values of filters. Only a search by words alone has counts of the words' matches. */
export const facetsQuery = (
  { q, mode, sort: _sort, ...filters }: Search,
  understood: Understood = {},
) => {
  const body = {
    ...understood,
    ...filters,
    ...(mode === 'words' && q !== undefined && { query: q }),
    facets: [...LIST_FACETS, 'rooms', 'price', 'area_total'],
  };
  return queryOptions({
    queryKey: ['facets', body],
    queryFn: ({ signal }) => request<Facets>('/listings/facets', { method: 'POST', body, signal }),
    placeholderData: keepPreviousData,
    staleTime: 60_000,
  });
};

/** Number of listings that a search finds. */
export const totalQuery = (search: Search) =>
  queryOptions({
    queryKey: ['total', search],
    queryFn: async ({ signal }) => {
      const { path, body } = createRequest(search, { limit: 1 });
      const { items, total } = await request<ResultPage>(path, { method: 'POST', body, signal });
      return total ?? { value: items.length, relation: 'gte' as const };
    },
    staleTime: 60_000,
  });

export type Suggestion = {
  text: string;
  kind: 'city' | 'district' | 'region' | 'property_type';
  value: string;
};

/** Filters whose names begin with a text. */
export const suggestionsQuery = (text: string) =>
  queryOptions({
    queryKey: ['suggestions', text],
    queryFn: async ({ signal }) => {
      const params = new URLSearchParams({ q: text, limit: '6' });
      const path = `/listings/suggest?${params.toString()}`;
      return (await request<{ items: Suggestion[] }>(path, { signal })).items;
    },
    enabled: text.length > 1,
    placeholderData: keepPreviousData,
    staleTime: Infinity,
  });
