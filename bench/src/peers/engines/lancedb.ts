import { findPackageVersion } from '../packages.ts';
import { createEmbeddedEngine } from './embedded.ts';

/** LanceDB, which has its own threads. It counts no facets. */
export const engine = createEmbeddedEngine({
  name: 'lancedb',
  kinds: ['words', 'filtered', 'by price', 'vector'],
  findVersion: () => findPackageVersion('@lancedb/lancedb'),
  processes: 1,
});
