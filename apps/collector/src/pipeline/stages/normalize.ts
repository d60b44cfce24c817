import { product } from '../context.ts';
import { readFacts } from '../merge.ts';
import { done, skipped } from '../outcome.ts';
import type { StageRun } from '../stage.ts';

/**
 * Makes one set of facts of what the source and the model say. It judges nothing: what is missing or
 * impossible is left out. Where the listing stays as an earlier attempt has made it, that was done. Specification 001,
 * Raw data status.
 */
export const normalize: StageRun = async (context) => {
  const { extracted, facts: made } = context.products;
  if (extracted === undefined && made !== undefined) return skipped;
  const { facts, provenance } = readFacts(
    context.job.rawId,
    product(context, 'payload'),
    product(context, 'extracted'),
  );
  context.products.facts = facts;
  context.products.provenance = provenance;
  return done;
};
