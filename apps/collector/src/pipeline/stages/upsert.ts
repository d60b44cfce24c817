import { normaliseText } from '../../text/normalise.ts';
import { product } from '../context.ts';
import type { Facts } from '../facts.ts';
import { listingState } from '../listing-state.ts';
import { done, superseded } from '../outcome.ts';
import { pricePerArea } from '../price-per-area.ts';
import { searchText } from '../search-text.ts';
import type { StageRun } from '../stage.ts';
import { findListingId, type UpsertEnrichments, upsertListing } from './upsert.sql.ts';

/**
 * Creates or updates the listing, says where its facts come from and works out what follows from them, unless it
 * was made from a newer payload already.
 */
export const upsert: StageRun = async (context, { db }) => {
  const facts = product(context, 'facts');
  const state = listingState(product(context, 'payload'), facts);
  const row = {
    ...state,
    city_key: state.city === null ? null : normaliseText(state.city),
    search_text: searchText(state),
  };
  const enrichments = { provenance: product(context, 'provenance'), ...priceOfArea(facts) };
  const listingId = await upsertListing(db, context.job, { row, enrichments });
  if (listingId !== undefined) {
    context.products.listingId = listingId;
    return done;
  }
  // A newer payload may have made it after this one was loaded.
  const newer = await findListingId(db, context.job);
  if (newer !== undefined) context.products.listingId = newer;
  return superseded;
};

function priceOfArea(facts: Facts): Pick<UpsertEnrichments, 'price_per_m2'> {
  const value = pricePerArea(facts);
  return value === undefined ? {} : { price_per_m2: { value, currency: facts.currency ?? null } };
}
