import { MODEL_FACTS } from '../listings/facts.ts';
import type { Changes } from './listing-state.ts';
import { namerOf, type Origins } from '../listings/provenance.ts';

const WORDED: ReadonlySet<string> = new Set(MODEL_FACTS);

/**
 * Whether something has changed that is more than the model's own words: asked twice about one text it
 * names other features, or another title where the source has none.
 */
export function isMaterialChange(changes: Changes, origins: Origins): boolean {
  return Object.keys(changes).some(
    (key) => !WORDED.has(key) && !(key === 'title' && namerOf(origins['title']) === 'model'),
  );
}
