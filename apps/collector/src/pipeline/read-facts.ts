import type { Payload } from '../payload/schema.ts';
import { type Extracted, extractionPrompt } from './extraction.ts';
import type { Facts } from './facts.ts';
import { mergeFacts } from './merge.ts';
import { pricePerArea } from '../listings/price-per-area.ts';
import { byRule, type Provenance } from '../listings/provenance.ts';

/** The facts of a payload and of what the model read out of it, and where each of them comes from. */
export function readFacts(
  rawId: number,
  payload: Payload,
  { extraction, model, requestedModel }: Extracted,
): { facts: Facts; provenance: Provenance } {
  const { facts, origins } = mergeFacts(payload, extraction);
  const fields = { ...origins };
  if (pricePerArea(facts) !== undefined) fields['price_per_m2'] = byRule('price_by_area');
  return {
    facts,
    provenance: {
      raw_id: rawId,
      model,
      requested_model: requestedModel,
      prompt_version: extractionPrompt.version,
      fields,
    },
  };
}
