import { product, type StageRun } from '../context.ts';
import { done } from '../outcome.ts';
import { readFacts } from '../merge.ts';

/** Merges the facts of the source and of the model; missing and impossible ones are left out. */
export const normalize: StageRun = async (context) => {
  const { facts, provenance } = readFacts(
    context.job.rawId,
    product(context, 'payload'),
    product(context, 'extracted'),
  );
  context.products.facts = facts;
  context.products.provenance = provenance;
  return done;
};
