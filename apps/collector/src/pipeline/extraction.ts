import { type Kysely, sql } from 'kysely';
import { defineCompletion, type ModelCallEvent, type ModelClient } from '@oselya/model';
import {
  type Extraction,
  extractionSchema,
  fieldInstructions,
  requestedExtractionSchema,
} from '../listing/fields.ts';
import { toPlainPayload, type Payload } from '../ingest/payload.ts';
import { type Prompt, readPrompt } from '../model.ts';
import { writeWithClaim } from '../queue/fence.ts';
import type { FencingToken } from '../queue/job-types.ts';
import type { Tables } from '../tables.ts';
import { sha256 } from '../text.ts';

/** Result of an extraction, with the model names from the response and from the configuration. */
export type ExtractionRecord = {
  extraction: Extraction;
  model: string;
  requestedModel: string;
};

/** Format of the model's completion. */
export const extractionCompletion = {
  ...defineCompletion({
    schemaName: 'listing_extraction',
    // docs/models.md includes these tokens in the context that a request needs.
    maxOutputTokens: 2_000,
    schema: requestedExtractionSchema,
  }),
  schema: extractionSchema,
};

/** System prompt with one line per field. Its version contains a hash of the prompt and the schema. */
export const extractionPrompt = createPrompt();

function createPrompt(): Prompt {
  const template = readPrompt('listing-extraction', import.meta.url).text;
  const text = template.replace('{fields}', () => fieldInstructions.join('\n'));
  const hash = sha256(text + JSON.stringify(extractionCompletion.sentSchema));
  return { version: `listing-extraction.${hash.slice(0, 8)}`, text };
}

/**
 * Extracts the facts from a payload, and determines whether it is a listing, in one model call. The payload is sent as
 * JSON data, never as part of the instructions. Specification 001, Errors.
 * @param options.observe Called for each request to the model.
 * @throws ModelError.
 */
export async function extractListing(
  client: Pick<ModelClient, 'generateObject' | 'chatModel'>,
  payload: Payload,
  { signal, observe }: { signal: AbortSignal; observe?: (event: ModelCallEvent) => void },
): Promise<ExtractionRecord> {
  const { value, model } = await client.generateObject({
    operation: 'extract',
    ...extractionCompletion,
    system: extractionPrompt.text,
    data: toPlainPayload(payload),
    signal,
    observe,
  });
  return { extraction: value, model, requestedModel: client.chatModel };
}

/** Returns whether the current prompt and model produced an extraction. */
export function isCurrentExtraction(
  { requestedModel, promptVersion }: { requestedModel: string; promptVersion: string },
  { chatModel }: Pick<ModelClient, 'chatModel'>,
): boolean {
  return requestedModel === chatModel && promptVersion === extractionPrompt.version;
}

/** Returns the reason why a payload is not a listing, or undefined if it is a listing. */
export function findRejectionReason({ extraction }: ExtractionRecord): string | undefined {
  return extraction.is_listing
    ? undefined
    : extraction.reason?.trim() || 'The model found no property listing in the payload.';
}

/**
 * Saves the extraction of a postponed job for its next attempt. The end of the job deletes the extraction.
 * @throws LeaseLostError
 */
export function saveExtraction(
  db: Kysely<Tables>,
  fence: FencingToken,
  { extraction, model, requestedModel }: ExtractionRecord,
): Promise<void> {
  return writeWithClaim(
    db,
    fence,
    sql`insert into raw_readings
        (raw_id, revision, extraction, model, requested_model, prompt_version)
      select raw_data.id, raw_data.revision, ${JSON.stringify(extraction)}::json, ${model}::text,
        ${requestedModel}::text, ${extractionPrompt.version}::text
      from claim join raw_data using (id)
      on conflict (raw_id) do update set revision = excluded.revision,
        extraction = excluded.extraction, model = excluded.model,
        requested_model = excluded.requested_model, prompt_version = excluded.prompt_version`,
  );
}
