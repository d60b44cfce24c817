import { normaliseText } from '../../text.ts';
import { product } from '../context.ts';
import { listingState, searchText } from '../listing-state.ts';
import { done, superseded } from '../outcome.ts';
import type { StageRun } from '../stage.ts';
import { findListingId, upsertListing } from './upsert.sql.ts';

/**
 * Creates or updates the listing, and says where its facts come from, unless it was made from a newer
 * payload already.
 */
export const upsert: StageRun = async (context, { db }) => {
  const state = listingState(product(context, 'payload'), product(context, 'facts'));
  const row = {
    ...state,
    city_key: state.city === null ? null : normaliseText(state.city),
    search_text: searchText(state),
  };
  const provenance = product(context, 'provenance');
  const listingId = await upsertListing(db, context.job, { row, provenance });
  if (listingId !== undefined) {
    context.products.listingId = listingId;
    return done;
  }
  // A newer payload may have made it after this one was loaded.
  const newer = await findListingId(db, context.job);
  if (newer !== undefined) context.products.listingId = newer;
  return superseded;
};
