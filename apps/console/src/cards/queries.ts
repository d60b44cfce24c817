import { queryOptions } from '@tanstack/react-query';
import { request } from '../api.ts';
import type { Listing } from '../listings/types.ts';

/** Maximum number of listings in one request. */
export const MAX_BATCH_SIZE = 100;

/** Listings by their IDs, in their order; missing ones are left out. */
export const batchQuery = (ids: readonly number[], currency: string | null) =>
  queryOptions({
    queryKey: ['listings', 'batch', ids, currency],
    queryFn: async ({ signal }) => {
      const body = { ids: ids.slice(0, MAX_BATCH_SIZE), ...(currency !== null && { currency }) };
      const { items } = await request<{ items: { listing: Listing }[] }>('/listings/batch', {
        method: 'POST',
        body,
        signal,
      });
      return items.map(({ listing }) => listing);
    },
    enabled: ids.length > 0,
    staleTime: 60_000,
    placeholderData: (previous) => previous,
  });
