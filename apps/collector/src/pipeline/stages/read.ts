import { product, type StageRun } from '../context.ts';
import { extractListing, rejectionOf } from '../extraction.ts';
import { readFacts } from '../merge.ts';
import { done, invalid, skipped } from '../outcome.ts';

/** Has the model read the payload, unless a reading is given or was kept. Ends a payload that is no property listing. */
export const validate: StageRun = async (context, { model }, signal) => {
  const { products } = context;
  const before = context.extracted ?? products.kept;
  const extracted =
    before ?? (await extractListing(model, product(context, 'payload'), { signal }));
  const rejection = rejectionOf(extracted);
  if (rejection !== undefined) return invalid('not_a_listing', rejection, 'validate');
  products.extracted = extracted;
  return before === undefined ? done : skipped;
};

/** Merges the facts of the source and of the model; missing and impossible ones are left out. */
export const normalize: StageRun = async (context) => {
  const [payload, extracted] = [product(context, 'payload'), product(context, 'extracted')];
  Object.assign(context.products, readFacts(context.job.rawId, payload, extracted));
  return done;
};
