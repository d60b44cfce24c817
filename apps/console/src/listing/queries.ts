import { queryOptions } from '@tanstack/react-query';
import { request } from '../api.ts';
import type { Hit, Image, ListingDetail, PriceChange, Snapshot } from '../listings/types.ts';

const MAX_CHANGES = 100;
const MAX_SIMILAR = 6;

type Id = { id: number; currency?: string | null | undefined };

const withCurrency = (currency: string | null | undefined, separator = '?') =>
  currency ? `${separator}currency=${currency}` : '';

/** One listing with the origins of its facts. */
export const listingQuery = ({ id, currency }: Id) =>
  queryOptions({
    queryKey: ['listing', id, currency],
    queryFn: ({ signal }) =>
      request<ListingDetail>(`/listings/${id}${withCurrency(currency)}`, { signal }),
  });

/** Images of a listing that can be shown. */
export const imagesQuery = (id: number) =>
  queryOptions({
    queryKey: ['listing-images', id],
    queryFn: async ({ signal }) => {
      const path = `/listings/${id}/images?limit=${MAX_CHANGES}`;
      const images = await request<Image[]>(path, { signal });
      return images.filter(({ sha256 }) => sha256 !== null);
    },
  });

/** Prices of a listing and its duplicates, oldest first. */
export const pricesQuery = ({ id, currency }: Id) =>
  queryOptions({
    queryKey: ['listing-prices', id, currency],
    queryFn: async ({ signal }) => {
      const path = `/listings/${id}/prices?limit=${MAX_CHANGES}${withCurrency(currency, '&')}`;
      return (await request<PriceChange[]>(path, { signal })).toReversed();
    },
  });

/** States of a listing, newest first. */
export const historyQuery = (id: number) =>
  queryOptions({
    queryKey: ['listing-history', id],
    queryFn: ({ signal }) =>
      request<Snapshot[]>(`/listings/${id}/history?limit=${MAX_CHANGES}`, { signal }),
  });

/** Listings that are near by meaning. */
export const similarQuery = ({ id, currency }: Id) =>
  queryOptions({
    queryKey: ['listing-similar', id, currency],
    queryFn: async ({ signal }) => {
      const body = {
        mode: 'meaning',
        listing_id: id,
        limit: MAX_SIMILAR,
        fold_duplicates: true,
        ...(currency && { currency }),
      };
      const page = await request<{ items: Hit[] }>('/listings/search', {
        method: 'POST',
        body,
        signal,
      });
      return page.items;
    },
  });
