/** What is remembered of users, as everybody else uses it. */

export { adminMemoryRoutes } from './admin-routes.ts';
export {
  countOwnFacts,
  deleteFact,
  deleteMemoryOf,
  findFact,
  listFactsOf,
  restoreFact,
  writeFact,
} from './repository.ts';
export {
  describeChange,
  type MemoryChange,
  memoryChange,
  type NoteChange,
  type NotedChange,
} from './change.ts';
export { lockMemoryOf } from './own-memory-lock.sql.ts';
export { memoryRoutes } from './routes.ts';
export { factRef, presentFact } from './schemas.ts';
export { createMemory, type KnownFact, MAX_FACTS, type Memory } from './service.ts';
export { findSummary } from './summary-repository.ts';
export { written } from './written.ts';
