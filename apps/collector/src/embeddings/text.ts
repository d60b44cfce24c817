import type { Selectable } from 'kysely';
import type { Tables } from '../tables.ts';
import { cutText } from '../text.ts';

/** Maximum length of an embedded text, in characters. */
const MAX_LENGTH = 8000;

/** Columns of a listing that its embedding depends on. */
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

/** Fields of a listing that its embedding depends on. */
export type EmbeddedListing = Pick<
  Selectable<Tables['property_listings']>,
  (typeof EMBEDDED_COLUMNS)[number]
>;

/**
 * Returns the text that represents a listing in its embedding: its wording and main facts. The text depends only on
 * stored columns, so every process produces the same one.
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

/** State of a listing's embedding. */
export type EmbeddingState = Pick<
  Selectable<Tables['property_listings']>,
  'embedding_model' | 'embedding_text_hash'
> & { is_embedded: boolean };

/** Returns whether a listing has an up-to-date embedding of a text by a model. */
export function isEmbedded(
  state: EmbeddingState,
  { hash, model }: { hash: string; model: string },
): boolean {
  return state.is_embedded && state.embedding_model === model && state.embedding_text_hash === hash;
}
