import type { Kysely } from 'kysely';
import type { Tables } from '../../database/tables.ts';
import { product } from '../context.ts';
import type { Facts } from '../facts.ts';
import { done, superseded } from '../outcome.ts';
import { pricePerArea } from '../price-per-area.ts';
import type { StageRun } from '../stage.ts';
import {
  type EnrichmentKind,
  type Enrichments,
  listPictures,
  replaceEnrichments,
} from './enrich.sql.ts';

const KINDS: readonly EnrichmentKind[] = ['price_per_m2', 'images'];

/**
 * Works out what follows from the listing's facts and pictures, without asking the model again. Where only
 * pictures were looked after, what follows from the facts stays.
 */
export const enrich: StageRun = async (context, { db }) => {
  const listingId = product(context, 'listingId');
  const { onlyPictures = false } = context.products;
  const kinds: readonly EnrichmentKind[] = onlyPictures ? ['images'] : KINDS;
  const enrichments: Enrichments = {
    ...(onlyPictures ? {} : priceOfArea(product(context, 'facts'))),
    ...(await describedImages(db, listingId)),
  };
  const written = await replaceEnrichments(db, context.job, listingId, { kinds, enrichments });
  return written ? done : superseded;
};

function priceOfArea(facts: Facts): Enrichments {
  const value = pricePerArea(facts);
  return value === undefined ? {} : { price_per_m2: { value, currency: facts.currency ?? null } };
}

async function describedImages(db: Kysely<Tables>, listingId: number): Promise<Enrichments> {
  const pictures = await listPictures(db, listingId);
  if (pictures.length === 0) return {};
  const roomTypes: Record<string, number> = {};
  for (const { room_type: type } of pictures) {
    if (type !== null) roomTypes[type] = (roomTypes[type] ?? 0) + 1;
  }
  const stored = pictures.filter(({ sha256 }) => sha256 !== null).length;
  return { images: { stored, failed: pictures.length - stored, room_types: roomTypes } };
}
