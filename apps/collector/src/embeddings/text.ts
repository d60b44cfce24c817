import type { Selectable } from 'kysely';
import type { Tables } from '../tables.ts';
import { joinNames } from '../places/listing-place.ts';
import { truncateText } from '../text.ts';

/** Maximum length of an embedded text, in UTF-16 code units. */
const MAX_LENGTH = 8000;

/** Columns of a listing on which its embedding depends. */
export const EMBEDDED_COLUMNS = [
  'title',
  'summary',
  'deal_type',
  'property_type',
  'city',
  'district',
  'place_text',
  'address',
  'rooms',
  'area_total',
  'features',
  'description',
] as const satisfies readonly (keyof Tables['property_listings'])[];

type ListingRow = Selectable<Tables['property_listings']>;
type EmbeddedListing = Pick<ListingRow, (typeof EMBEDDED_COLUMNS)[number]>;

/** Returns the text to embed: the wording and main facts of a listing, from stored columns only. */
export function buildEmbeddingText(listing: EmbeddedListing): string {
  const { rooms, area_total: area } = listing;
  const sizeParts = [rooms === null ? null : `${rooms} rooms`, area === null ? null : `${area} m2`];
  const lines = [
    listing.title,
    listing.summary,
    joinKnownValues([listing.deal_type, listing.property_type], ' '),
    // As written, so that embeddings from before migration 0028 stay valid.
    joinKnownValues([listing.place_text ?? joinNames(listing), listing.address], ', '),
    joinKnownValues(sizeParts, ', '),
    listing.features.join(', '),
    listing.description,
  ];
  return truncateText(lines.filter((line) => line !== null && line !== '').join('\n'), MAX_LENGTH);
}

const joinKnownValues = (values: readonly (string | null)[], separator: string) =>
  values.filter((value) => value !== null).join(separator);

type EmbeddingInfo = Pick<ListingRow, 'embedding_model' | 'embedding_text_hash'> & {
  is_embedded: boolean;
};

/** Returns whether the embedding is up to date: created by this model from a text with this hash. */
export function isEmbedded(
  { is_embedded: hasEmbedding, embedding_model, embedding_text_hash }: EmbeddingInfo,
  { hash, model }: { hash: string; model: string },
): boolean {
  return hasEmbedding && embedding_model === model && embedding_text_hash === hash;
}
