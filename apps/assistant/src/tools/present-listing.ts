import type { Found, Listing } from '../collector/client.ts';
import { shortenText } from '../text.ts';
import type { ToolOutput } from './tool.ts';

/** How much of a listing's text the model sees in a list, and where it asked for the one. */
const EXCERPT_LENGTH = 240;
const TEXT_LENGTH = 6000;

/** A listing in a list, for the model: what people compare. What the source does not say is left out. */
function brief(listing: Listing) {
  return present({
    ...facts(listing),
    text: shortenText(listing.summary ?? listing.description, EXCERPT_LENGTH),
  });
}

/** A listing that was asked for, for the model. */
export function detailed(listing: Listing) {
  return present({
    ...facts(listing),
    area_living: listing.area_living,
    area_kitchen: listing.area_kitchen,
    features: listing.features,
    contact_name: listing.contact_name,
    phones: listing.phones,
    published_at: listing.published_at,
    updated_at: listing.updated_at,
    text: shortenText(listing.description, TEXT_LENGTH),
  });
}

/** What was found: for the model, for the answers after this one, and for people. */
export function describeFound({ listings, total }: Found): ToolOutput {
  const ids = listings.map(({ listing_id }) => listing_id);
  const all = total === undefined ? undefined : describeTotal(total);
  return {
    data: { ...(all !== undefined && { total: all }), listings: listings.map(brief) },
    kept: { listing_ids: ids },
    summary: summarize(ids.length, all),
  };
}

function summarize(count: number, all: string | undefined): string {
  if (count === 0) return 'nothing found';
  return all === undefined ? `${count} found` : `${count} of ${all}`;
}

function describeTotal({ value, relation }: NonNullable<Found['total']>): string {
  return relation === 'gte' ? `${value} or more` : String(value);
}

function facts(listing: Listing) {
  const { floor, floors_total: floors } = listing;
  return {
    listing_id: listing.listing_id,
    title: listing.title,
    deal_type: listing.deal_type,
    property_type: listing.property_type,
    price: listing.price,
    currency: listing.currency,
    city: listing.city,
    district: listing.district,
    address: listing.address,
    rooms: listing.rooms,
    area_total: listing.area_total,
    floor: floor === null ? null : floors === null ? String(floor) : `${floor}/${floors}`,
    url: listing.url,
    archived_at: listing.archived_at,
  };
}

function present(fields: Readonly<Record<string, unknown>>): Record<string, unknown> {
  return Object.fromEntries(
    Object.entries(fields).filter(
      ([, value]) => value !== null && !(Array.isArray(value) && value.length === 0),
    ),
  );
}
