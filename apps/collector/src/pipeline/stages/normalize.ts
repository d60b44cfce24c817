import { product } from '../context.ts';
import { readFacts } from '../read-facts.ts';
import { done } from '../outcome.ts';
import type { StageRun } from '../stage.ts';

/**
 * Makes one set of facts of what the source and the model say. It judges nothing: what is missing or
 * impossible is left out. Specification 001, Raw data status.
 */
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
