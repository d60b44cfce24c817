import type { Selectable } from 'kysely';
import type { Tables } from '../tables.ts';
import { cutText } from '../text.ts';

/** Models read so many characters at most, of which the first say most. */
const MAX_LENGTH = 8000;

/** The columns that a listing's embedding is made from. */
export const EMBEDDED_COLUMNS = [
  'title',
  'summary',
  'deal_type',
  'property_type',
  'city',
  'district',
  'address',
  'rooms',
  'area_total',
  'features',
  'description',
] as const satisfies readonly (keyof Tables['property_listings'])[];

/** What of a listing its embedding says. */
export type EmbeddedListing = Pick<
  Selectable<Tables['property_listings']>,
  (typeof EMBEDDED_COLUMNS)[number]
>;

/**
 * The text of a listing that its embedding is made from: what it says, and its main facts in words. It
 * is made of what is stored, so that whoever makes it, and whenever, makes the same.
 */
export function embeddingText(listing: EmbeddedListing): string {
  const place = [listing.city, listing.district, listing.address].filter((part) => part !== null);
  const size = [
    listing.rooms === null ? null : `${listing.rooms} rooms`,
    listing.area_total === null ? null : `${listing.area_total} m2`,
  ].filter((part) => part !== null);
  const lines = [
    listing.title,
    listing.summary,
    [listing.deal_type, listing.property_type].filter((part) => part !== null).join(' '),
    place.join(', '),
    size.join(', '),
    listing.features.join(', '),
    listing.description,
  ];
  return cutText(lines.filter((line) => line !== null && line !== '').join('\n'), MAX_LENGTH);
}

/** What a listing's row says of its embedding. */
export type EmbeddingState = Pick<
  Selectable<Tables['property_listings']>,
  'embedding_model' | 'embedding_text_hash'
> & { is_embedded: boolean };

/** Whether a listing's embedding is of this text by this model. */
export function isEmbedded(
  state: EmbeddingState,
  { hash, model }: { hash: string; model: string },
): boolean {
  return state.is_embedded && state.embedding_model === model && state.embedding_text_hash === hash;
}
