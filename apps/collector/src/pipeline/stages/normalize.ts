import { product, type StageRun } from '../context.ts';
import { mergeFacts } from '../merge.ts';
import { done } from '../outcome.ts';

/**
 * Makes one set of facts of what the source and the model say. It judges nothing: what is missing or
 * impossible is left out. Specification 001, Raw data status.
 */
export const normalize: StageRun = async (context) => {
  const { facts, provenance } = mergeFacts(
    product(context, 'payload'),
    product(context, 'extraction'),
  );
  context.products.facts = facts;
  context.products.provenance = provenance;
  return done;
};
