/** The rules of the mock language model: pure and deterministic, without input or output. */
export { describeImage } from './describe-image.ts';
export { embedText } from './embed.ts';
export { FEATURE_SLUGS } from './features.ts';
export { readListing, type ReadListing } from './read-listing.ts';
export type { DealType } from './types.ts';
export { readSearchCriteria, type SearchCriteria } from './search-criteria.ts';
