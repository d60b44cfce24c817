// Exports for the benchmarks only. Other packages must not import this module.

export { guardRoutes } from './access/guard.ts';
export type { Tables } from './tables.ts';
export { registerIngestRoutes } from './ingest/routes.ts';
export { createIngest, type Ingest } from './ingest/store.ts';
export { createMetrics } from './metrics.ts';
export { createRawCleanup } from './operations/payloads.ts';
export { getMigrateOptions } from './database.ts';
export { buildSearchText } from './pipeline/listing-state.ts';
export { getPlaceKeys, resolveListingPlace } from './places/listing-place.ts';
export { claimJobs } from './queue/claim.ts';
export { createJobNotifier, QUEUE_CHANNEL } from './queue/notifications.ts';
export { startWorker } from './queue/worker.ts';
export { buildEmbeddingText } from './embeddings/text.ts';
export { storeStartingRates } from './money/rates.ts';
export { ORDERS } from './search/browse.ts';
export { analyzeText, createStems, STEMS_VERSION } from './search/listing-stems.ts';
export { analyzeQuery } from './search/query-analysis.ts';
export { createSearchService } from './search/service.ts';
export { refreshVocabulary } from './search/vocabulary.ts';
export { resolveFilters } from './search/filters.ts';
export { searchByStems } from './search/stem-search.ts';
export { computeStoredStems } from './search/stored-stems.ts';
export { normalizeText } from './text.ts';
export { MIN_BLOCK_MATCHES } from './search/schemas.ts';
