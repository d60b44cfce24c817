import { MODEL_FACTS } from '../listings/facts.ts';
import type { Changes } from './listing-state.ts';
import { type Namer, namerOf, type Origins } from '../listings/provenance.ts';

const WORDED: ReadonlySet<string> = new Set(MODEL_FACTS);

/**
 * Whether something has changed that is more than the model's own words: asked twice about one text it
 * names other features, or another title where the source has none, and had none before.
 * @param titleBefore Who named the title that was changed, where that is known.
 */
export function isMaterialChange(
  changes: Changes,
  origins: Origins,
  titleBefore: Namer | null,
): boolean {
  const isTitleWorded = namerOf(origins['title']) === 'model' && titleBefore !== 'payload';
  return Object.keys(changes).some(
    (key) => !WORDED.has(key) && !(key === 'title' && isTitleWorded),
  );
}
