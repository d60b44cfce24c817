import type { Listing, ListingPage } from '../../collector/client.ts';
import { listingFields } from '../../collector/generated/openapi.ts';
import { shortenText } from '../../text.ts';
import type { ToolOutput } from './tool.ts';

const MAX_EXCERPT_LENGTH = 240;
const MAX_TEXT_LENGTH = 6000;

const DETAIL_FIELDS = listingFields.filter(({ shown }) => shown !== null);
const BRIEF_FIELDS = DETAIL_FIELDS.filter(({ shown }) => shown !== 'detail');

/** Returns the detailed form of a listing for the model, with its text and contacts. */
export function presentDetails(listing: Listing) {
  const { updated_at, description } = listing;
  const text = shortenText(description, MAX_TEXT_LENGTH);
  return presentFields(listing, DETAIL_FIELDS, { updated_at, text });
}

/** Creates the tool output for a page of search results. */
export function presentPage({ listings, total }: ListingPage): ToolOutput {
  const ids = listings.map(({ listing_id }) => listing_id);
  const briefListings = listings.map((listing) => {
    const text = shortenText(listing.summary ?? listing.description, MAX_EXCERPT_LENGTH);
    return presentFields(listing, BRIEF_FIELDS, { text });
  });
  const totalText =
    total && (total.relation === 'gte' ? `${total.value} or more` : String(total.value));
  const foundText =
    totalText === undefined ? `${ids.length} found` : `${ids.length} of ${totalText}`;
  return {
    data: { ...(totalText !== undefined && { total: totalText }), listings: briefListings },
    laterData: { listing_ids: ids },
    listingIds: ids,
    summary: ids.length === 0 ? 'nothing found' : foundText,
  };
}

/** Returns the given fields of a listing and the extra values, without empty ones. */
function presentFields(listing: Listing, fields: typeof DETAIL_FIELDS, extraValues: object) {
  const { listing_id, archived_at, floor, floors_total: floorsTotal } = listing;
  const values: Record<string, unknown> = {
    listing_id,
    ...Object.fromEntries(fields.map(({ name }) => [name, listing[name]])),
    floor: floor !== null && floorsTotal !== null ? `${floor}/${floorsTotal}` : floor?.toString(),
    floors_total: undefined,
    archived_at,
    ...extraValues,
  };
  return Object.fromEntries(
    Object.entries(values).filter(
      ([, value]) => value != null && !(Array.isArray(value) && value.length === 0),
    ),
  );
}
