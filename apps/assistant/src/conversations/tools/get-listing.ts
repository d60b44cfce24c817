import { formatListingId } from '@oselya/kit';
import { Type } from 'typebox';
import { presentDetails } from './present-listing.ts';
import { formatListing, parseListingInput } from './search-listings.ts';
import { defineTool } from './tool.ts';

const DETAILS_PATTERN =
  /(?:детальн\p{L}*|подробн\p{L}*|details|listing|оголошення|объявлени\p{L}*)\D{0,20}#?(\d+)/iu;

const LISTING_HEADING = {
  uk: 'Ось що відомо про оголошення:',
  ru: 'Вот что известно об объявлении:',
  en: 'This is what is known of the listing:',
};

/** Tool that reads one listing. */
export const getListing = defineTool({
  name: 'get_listing',
  description: 'Reads one listing with its contacts and up to 6,000 characters of its text.',
  input: Type.Object({ listing_id: Type.Integer({ minimum: 1 }) }, { additionalProperties: false }),
  hasThirdPartyText: true,
  title: ({ listing_id: listingId }) => `Reading listing ${formatListingId(listingId)}`,
  async run({ listing_id: listingId }, { collector, signal }) {
    const listing = await collector.findListing(listingId, signal);
    return {
      data: presentDetails(listing),
      laterData: { listing_id: listingId },
      listingIds: [listingId],
      summary: listing.title ?? `listing ${formatListingId(listingId)}`,
    };
  },
  mock: {
    call: ({ text }) => parseListingInput(text, DETAILS_PATTERN),
    answer: (data, language) => {
      const line = formatListing(data as Parameters<typeof formatListing>[0], language);
      return `${LISTING_HEADING[language]}\n${line}\n${typeof data['text'] === 'string' ? data['text'] : ''}`;
    },
  },
});
