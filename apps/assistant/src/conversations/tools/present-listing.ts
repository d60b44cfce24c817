import type { Found, Listing } from '../../collector/client.ts';
import { listingFields } from '../../collector/generated/openapi.ts';
import { shortenText } from '../../text.ts';
import type { ToolOutput } from './tool.ts';

/** Maximum length of a listing's text in a list and on its own, in characters. */
const EXCERPT_LENGTH = 240;
const TEXT_LENGTH = 6000;

const DETAILS = listingFields.filter(({ shown }) => shown !== null);
const BRIEF = DETAILS.filter(({ shown }) => shown !== 'detail');

/** Returns the brief form of a listing for the model, without unknown values. */
function brief(listing: Listing) {
  const { summary, description } = listing;
  return present(listing, BRIEF, { text: shortenText(summary ?? description, EXCERPT_LENGTH) });
}

/** Returns the detailed form of a listing for the model, with its text and contacts. */
export function detailed(listing: Listing) {
  const { updated_at, description } = listing;
  return present(listing, DETAILS, { updated_at, text: shortenText(description, TEXT_LENGTH) });
}

/** Creates the tool output for found listings. */
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

function present(listing: Listing, fields: typeof DETAILS, more: object): Record<string, unknown> {
  const { listing_id, archived_at, floor, floors_total: floors } = listing;
  const shown = {
    listing_id,
    ...Object.fromEntries(fields.map(({ name }) => [name, listing[name]])),
    floor: floor !== null && floors !== null ? `${floor}/${floors}` : floor?.toString(),
    floors_total: undefined,
    archived_at,
    ...more,
  };
  return Object.fromEntries(
    Object.entries(shown).filter(
      ([, value]) => value != null && !(Array.isArray(value) && value.length === 0),
    ),
  );
}
