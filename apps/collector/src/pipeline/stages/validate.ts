import { product, type Products, type StageDeps } from '../context.ts';
import { extractListing, isReadByNow, refusalOf } from '../extraction.ts';
import { done, invalid, skipped } from '../outcome.ts';
import type { Made } from '../merge.ts';
import type { StageRun } from '../stage.ts';

/**
 * Has the model read the payload, unless that was done before: by whoever has it processed, or by an attempt that
 * an outage met after it, or that had made the listing. What is no property listing ends here, unless the listing was
 * made from this very payload, when it was read before: then it stays as it was read, as with `oselya reprocess`.
 */
export const validate: StageRun = async (context, { model }, signal) => {
  const { products } = context;
  const { kept, made } = products;
  const before = context.extracted ?? kept;
  if (before === undefined && made !== undefined && isOfThisRun(made, model)) {
    takeMade(products, made);
    return skipped;
  }
  const extracted =
    before ?? (await extractListing(model, product(context, 'payload'), { signal }));
  const refusal = refusalOf(extracted);
  if (refusal === undefined) {
    products.extracted = extracted;
    return before === undefined ? done : skipped;
  }
  if (made === undefined) return invalid('not_a_listing', refusal, 'validate');
  takeMade(products, made);
  return done;
};

function isOfThisRun({ provenance, sinceQueued }: Made, model: StageDeps['model']): boolean {
  const { requested_model: requestedModel, prompt_version: promptVersion } = provenance;
  return sinceQueued && isReadByNow({ requestedModel, promptVersion }, model);
}

function takeMade(products: Partial<Products>, { facts, provenance }: Made): void {
  products.facts = facts;
  products.provenance = provenance;
}
