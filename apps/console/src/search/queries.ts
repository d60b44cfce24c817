import { infiniteQueryOptions, queryOptions } from '@tanstack/react-query';
import { request } from '../api.ts';
import { createRequest, type Search } from './address.ts';

/** Amount in a currency. */
export type Price = { amount: number; currency: string };

/** Listing of a page of results, with what a row shows. */
export type Hit = {
  listing: {
    listing_id: number;
    title: string | null;
    description: string;
    deal_type: string | null;
    property_type: string | null;
    price: number | null;
    currency: string | null;
    converted_price: Price | null;
    price_per_m2: number | null;
    city: string | null;
    district: string | null;
    rooms: number | null;
    area_total: number | null;
    floor: number | null;
    floors_total: number | null;
    source_slug: string;
    created_at: string;
  };
  cover: { sha256: string; width: number; height: number; links?: { small: string } } | null;
  image_count: number;
  price_before: (Price & { changed_at: string }) | null;
  duplicates?: number[];
  highlight?: string;
};

export type Page = {
  items: Hit[];
  total: { value: number; relation: 'eq' | 'gte' };
  currency: string;
  next_cursor: string | null;
};

/** Pages of a search. */
export const hitsQuery = (search: Search) =>
  infiniteQueryOptions({
    queryKey: ['hits', search],
    queryFn: ({ pageParam, signal }) => {
      const { path, body } = createRequest(search);
      const page = { ...body, limit: 50, ...(pageParam && { cursor: pageParam }) };
      return request<Page>(path, { method: 'POST', body: page, signal });
    },
    initialPageParam: '',
    getNextPageParam: ({ next_cursor: cursor }) => cursor ?? undefined,
    placeholderData: (previous) => previous,
  });

export type FacetValue = { value: string; count: number; place_id?: number; region?: string | null };
export type Facets = {
  facets: Record<string, { values: FacetValue[]; relation: 'eq' | 'gte' }>;
  currency: string;
};

/** Counts of the values of filters. */
export const facetsQuery = ({ q, sort: _sort, ...filters }: Search) =>
  queryOptions({
    queryKey: ['facets', q, filters],
    queryFn: ({ signal }) =>
      request<Facets>('/listings/search/facets', { method: 'POST', body: filters, signal }),
    placeholderData: (previous) => previous,
  });
