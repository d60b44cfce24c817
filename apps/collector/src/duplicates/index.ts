export { startDuplicateSearch } from './duplicates.ts';
export { registerDuplicateMetrics } from './metrics.ts';
export { listDuplicates } from './repository.ts';
export { duplicatesSchema } from './schemas.ts';
