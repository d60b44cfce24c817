import type { Selectable } from 'kysely';
import type { Tables } from '../tables.ts';
import { truncateText } from '../text.ts';

/** Maximum length of an embedded text, in UTF-16 code units. */
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

/** Returns the text of a listing that is embedded: its wording and main facts. It depends only on stored columns. */
export function buildEmbeddingText(listing: EmbeddedListing): string {
  const { rooms, area_total: area } = listing;
  const size = [rooms === null ? null : `${rooms} rooms`, area === null ? null : `${area} m2`];
  const lines = [
    listing.title,
    listing.summary,
    joinKnown([listing.deal_type, listing.property_type], ' '),
    joinKnown([listing.city, listing.district, listing.address], ', '),
    joinKnown(size, ', '),
    listing.features.join(', '),
    listing.description,
  ];
  return truncateText(lines.filter((line) => line !== null && line !== '').join('\n'), MAX_LENGTH);
}

const joinKnown = (values: readonly (string | null)[], separator: string) =>
  values.filter((value) => value !== null).join(separator);

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
