import { createEmbeddedEngine } from './embedded.ts';

/** SQLite's FTS5 of Node. A search uses one core, so there is a process for each. */
export const engine = createEmbeddedEngine({
  name: 'fts5',
  kinds: ['words', 'filtered', 'by price', 'facets'],
  findVersion: () => Promise.resolve(process.versions['sqlite']),
  processes: 2,
});
