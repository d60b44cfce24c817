import { formatListingId } from '@oselya/kit';
import { Type } from 'typebox';
import type { Collector } from '../collector/client.ts';
import { describeFilters, listingFilters } from './listing-filters.ts';
import { describeFound } from './present-listing.ts';
import { defineTool, ToolError } from './tool.ts';

const LIMIT = 5;

/** Finds listings that are like another one, or mean what a text says. Contract 4, Search. */
export const similarListings = (collector: Pick<Collector, 'searchSimilar'>) =>
  defineTool({
    name: 'similar_listings',
    description:
      'Finds listings that are like one listing (listing_id), or that mean what a text says (query); give one of the two. For "more like this one" and for wishes that filters cannot say.',
    input: Type.Object(
      {
        listing_id: Type.Optional(Type.Integer({ minimum: 1 })),
        query: Type.Optional(Type.String({ minLength: 1, maxLength: 512 })),
        ...listingFilters,
      },
      { additionalProperties: false },
    ),
    isData: true,
    changesMemory: false,
    title: ({ listing_id: listingId, query, ...filters }) =>
      [
        listingId === undefined
          ? 'Searching by meaning'
          : `Searching for more like ${formatListingId(listingId)}`,
        query,
        describeFilters(filters),
      ]
        .filter(Boolean)
        .join(' · '),
    async run({ limit = LIMIT, ...search }, { signal }) {
      if ((search.listing_id === undefined) === (search.query === undefined)) {
        throw new ToolError('give either listing_id or query');
      }
      const found = await collector.searchSimilar(
        { ...search, limit, fold_duplicates: true },
        signal,
      );
      return describeFound(found);
    },
  });
