import { createHash } from 'node:crypto';
import { defineAnswer, type ModelCallEvent, type ModelClient } from '@oselya/model';
import { type Extraction, extractionSchema, fieldInstructions } from '../listing/fields.ts';
import { plainPayload, type Payload } from '../ingest/payload.ts';
import { type Prompt, readPrompt } from '../model/prompt.ts';

/** What a model read out of a payload. */
export type Extracted = {
  extraction: Extraction;
  /** The model's name as its server gave it, and as it was asked for. */
  model: string;
  requestedModel: string;
};

/** The model's answer about a payload. */
export const listingExtraction = defineAnswer({
  schemaName: 'listing_extraction',
  // A long answer has about 600; with the instructions it takes 3,000 of the context (docs/models.md).
  maxOutputTokens: 2_000,
  schema: extractionSchema,
});

/**
 * The instructions, with a line for each field. Listings and snapshots record the version, a hash of the instructions and
 * the schema: every change of either is a new version.
 */
export const extractionPrompt = versioned(
  readPrompt('listing-extraction', import.meta.url).text.replace('{fields}', () =>
    fieldInstructions.join('\n'),
  ),
);

function versioned(text: string): Prompt {
  const schema = JSON.stringify(listingExtraction.sentSchema);
  const hash = createHash('sha256').update(text).update(schema).digest('hex');
  return { version: `listing-extraction.${hash.slice(0, 8)}`, text };
}

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
