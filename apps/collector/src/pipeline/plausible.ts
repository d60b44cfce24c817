import type { Merged } from './facts.ts';
import { byRule, namerOf } from '../listings/provenance.ts';

/** Facts of which the one cannot exceed the other. Of areas the total is the one that is known best. */
const PARTS = [
  { part: 'floor', whole: 'floors_total', trustWhole: false },
  { part: 'area_living', whole: 'area_total', trustWhole: true },
  { part: 'area_kitchen', whole: 'area_total', trustWhole: true },
] as const;

/**
 * Leaves out facts that contradict one another: what the model read where the source said the other,
 * else the part, and the whole too where nothing tells which of them is wrong.
 */
export function dropImpossible({ facts, origins }: Merged): Merged {
  const kept = { ...facts };
  const known = { ...origins };
  for (const { part, whole, trustWhole } of PARTS) {
    const [less, more] = [kept[part], kept[whole]];
    if (less === undefined || more === undefined || less <= more) continue;
    const [ofPart, ofWhole] = [namerOf(known[part]), namerOf(known[whole])];
    const onlyWhole = ofPart === 'payload' && ofWhole === 'model';
    const onlyPart = ofPart === 'model' && ofWhole === 'payload';
    if (!onlyWhole) {
      delete kept[part];
      known[part] = byRule('contradiction', ofPart);
    }
    if (onlyWhole || (!onlyPart && !trustWhole)) {
      delete kept[whole];
      known[whole] = byRule('contradiction', ofWhole);
    }
  }
  return { facts: kept, origins: known };
}
