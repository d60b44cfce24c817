/** Searches that users keep, as everybody else uses them. */

export { deleteSavedSearchesOf, listHits, listSavedSearches } from './repository.ts';
export { savedSearchRoutes } from './routes.ts';
export type { Search } from './search.ts';
export { createSavedSearches } from './service.ts';
