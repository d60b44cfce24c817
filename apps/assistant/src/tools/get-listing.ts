import { formatListingId } from '@oselya/kit';
import { Type } from 'typebox';
import type { Collector } from '../collector/client.ts';
import { detailed } from './present-listing.ts';
import { defineTool } from './tool.ts';

/** Reads one listing. Contract 3, Profiles. */
export const getListing = (collector: Pick<Collector, 'findListing'>) =>
  defineTool({
    name: 'get_listing',
    description: 'Reads one listing with its whole text and contacts.',
    input: Type.Object(
      { listing_id: Type.Integer({ minimum: 1 }) },
      { additionalProperties: false },
    ),
    isData: true,
    changesMemory: false,
    title: ({ listing_id: listingId }) => `Reading listing ${formatListingId(listingId)}`,
    async run({ listing_id: listingId }, { signal }) {
      const listing = await collector.findListing(listingId, signal);
      return {
        data: detailed(listing),
        kept: { listing_id: listingId },
        summary: listing.title ?? `listing ${formatListingId(listingId)}`,
      };
    },
  });
