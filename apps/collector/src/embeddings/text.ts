import type { Selectable } from 'kysely';
import type { Tables } from '../tables.ts';
import { cutText } from '../text.ts';

/** The longest text that is embedded, in characters. */
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

/** The fields of a listing that are embedded. */
export type EmbeddedListing = Pick<
  Selectable<Tables['property_listings']>,
  (typeof EMBEDDED_COLUMNS)[number]
>;

/**
 * Returns the text that a listing's embedding is made from: its words and main facts. It depends on stored columns alone,
 * so that every process makes the same.
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

/** The state of a listing's embedding. */
export type EmbeddingState = Pick<
  Selectable<Tables['property_listings']>,
  'embedding_model' | 'embedding_text_hash'
> & { is_embedded: boolean };

/** Tells whether a listing has the embedding of a text by a model. */
export function isEmbedded(
  state: EmbeddingState,
  { hash, model }: { hash: string; model: string },
): boolean {
  return state.is_embedded && state.embedding_model === model && state.embedding_text_hash === hash;
}
