import {
  listingExtraction,
  type ListingExtraction,
  type ModelCallEvent,
  type ModelClient,
} from '@oselya/model';
import { plainPayload } from '../payload/plain.ts';
import type { Payload } from '../payload/schema.ts';
import { readPrompt } from '../model/prompt.ts';

/** What a model read out of a payload. */
export type Extracted = {
  extraction: ListingExtraction;
  /** The model's name as its server gave it, and as it was asked for. */
  model: string;
  requestedModel: string;
};

/** Its version is recorded with every listing, so that one made with an older prompt can be told. */
export const extractionPrompt = readPrompt('listing-extraction.v2', import.meta.url);

/**
 * Asks the model whether a payload is a property listing, and in the same call what it says. The payload
 * goes as JSON data without markup, never as a part of the instructions. Specification 001, Errors.
 * @param options.observe Told of each request to the model.
 * @throws ModelError.
 */
export async function extractListing(
  client: Pick<ModelClient, 'generateObject' | 'chatModel'>,
  payload: Payload,
  { signal, observe }: { signal: AbortSignal; observe?: (event: ModelCallEvent) => void },
): Promise<Extracted> {
  const { value, model } = await client.generateObject({
    operation: 'extract',
    ...listingExtraction,
    system: extractionPrompt.text,
    data: plainPayload(payload),
    signal,
    observe,
  });
  return { extraction: value, model, requestedModel: client.chatModel };
}

/** Whether what was read would be read by the same prompt and model now. */
export function isReadByNow(
  read: { requestedModel: string; promptVersion: string },
  { chatModel }: Pick<ModelClient, 'chatModel'>,
): boolean {
  return read.requestedModel === chatModel && read.promptVersion === extractionPrompt.version;
}

/** Why a payload is no property listing; undefined for one that is. */
export function refusalOf({ extraction }: Extracted): string | undefined {
  return extraction.is_listing
    ? undefined
    : extraction.reason?.trim() || 'The model found no property listing in the payload.';
}
