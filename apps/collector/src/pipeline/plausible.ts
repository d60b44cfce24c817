import type { Merged } from './merge.ts';

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
export function dropImpossible({ facts, provenance }: Merged): Merged {
  const kept = { ...facts };
  const origins = { ...provenance };
  for (const { part, whole, trustWhole } of PARTS) {
    const [less, more] = [kept[part], kept[whole]];
    if (less === undefined || more === undefined || less <= more) continue;
    const onlyWhole = origins[part] === 'payload' && origins[whole] === 'model';
    const onlyPart = origins[part] === 'model' && origins[whole] === 'payload';
    if (!onlyWhole) {
      delete kept[part];
      delete origins[part];
    }
    if (onlyWhole || (!onlyPart && !trustWhole)) {
      delete kept[whole];
      delete origins[whole];
    }
  }
  return { facts: kept, provenance: origins };
}
