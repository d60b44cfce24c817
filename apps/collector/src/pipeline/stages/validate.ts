import { product, type StageRun } from '../context.ts';
import { extractionPrompt, extractionSchema } from '../extraction.ts';
import { done, invalid } from '../outcome.ts';

/**
 * Asks the model whether the payload is a property listing, and in the same call what it says. The
 * payload goes as JSON data, never as a part of the instructions. Specification 001, Errors.
 */
export const validate: StageRun = async (context, { model }, signal) => {
  const { value, model: name } = await model.generateObject({
    operation: 'extract',
    schemaName: 'listing_extraction',
    schema: extractionSchema,
    system: extractionPrompt,
    data: product(context, 'payload'),
    signal,
  });
  if (!value.is_listing) {
    const reason = value.reason ?? 'The model found no property listing in the payload.';
    return invalid('not_a_listing', reason, 'validate');
  }
  context.products.extraction = value;
  context.products.extractedBy = name;
  return done;
};
