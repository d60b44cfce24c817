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
  return present(listing, DETAIL_FIELDS, { updated_at, text });
}

/** Creates the tool output for a page of found listings. */
export function presentPage({ listings, total }: ListingPage): ToolOutput {
  const ids = listings.map(({ listing_id }) => listing_id);
  const brief = listings.map((listing) => {
    const text = shortenText(listing.summary ?? listing.description, MAX_EXCERPT_LENGTH);
    return present(listing, BRIEF_FIELDS, { text });
  });
  const all = total && (total.relation === 'gte' ? `${total.value} or more` : String(total.value));
  const count = all === undefined ? `${ids.length} found` : `${ids.length} of ${all}`;
  return {
    data: { ...(all !== undefined && { total: all }), listings: brief },
    kept: { listing_ids: ids },
    summary: ids.length === 0 ? 'nothing found' : count,
  };
}

/** Returns the known values of a listing. */
function present(listing: Listing, fields: typeof DETAIL_FIELDS, more: object) {
  const { listing_id, archived_at, floor, floors_total: floors } = listing;
  const values: Record<string, unknown> = {
    listing_id,
    ...Object.fromEntries(fields.map(({ name }) => [name, listing[name]])),
    floor: floor !== null && floors !== null ? `${floor}/${floors}` : floor?.toString(),
    floors_total: undefined,
    archived_at,
    ...more,
  };
  return Object.fromEntries(
    Object.entries(values).filter(
      ([, value]) => value != null && !(Array.isArray(value) && value.length === 0),
    ),
  );
}
