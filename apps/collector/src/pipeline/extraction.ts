import { createHash } from 'node:crypto';
import { type Kysely, sql } from 'kysely';
import { defineAnswer, type ModelCallEvent, type ModelClient } from '@oselya/model';
import { type Extraction, extractionSchema, fieldInstructions } from '../listing/fields.ts';
import { plainPayload, type Payload } from '../ingest/payload.ts';
import { type Prompt, readPrompt } from '../model.ts';
import { writeWithClaim } from '../queue/fence.ts';
import type { Fence } from '../queue/job-types.ts';
import type { Tables } from '../tables.ts';

/** A model's reading of a payload. */
export type ExtractionRecord = {
  extraction: Extraction;
  /** The model's name as its server gave it, and as it was requested. */
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
 * Asks the model in one call whether a payload is a property listing, and what it says. The payload goes as JSON data
 * without markup, never as a part of the instructions. Specification 001, Errors.
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
    ...listingExtraction,
    system: extractionPrompt.text,
    data: plainPayload(payload),
    signal,
    observe,
  });
  return { extraction: value, model, requestedModel: client.chatModel };
}

/** Tells whether a reading is by the current prompt and model. */
export function isCurrentExtraction(
  read: { requestedModel: string; promptVersion: string },
  { chatModel }: Pick<ModelClient, 'chatModel'>,
): boolean {
  return read.requestedModel === chatModel && read.promptVersion === extractionPrompt.version;
}

/** Returns why a payload is no property listing, or undefined for one that is. */
export function findRejectionReason({ extraction }: ExtractionRecord): string | undefined {
  return extraction.is_listing
    ? undefined
    : extraction.reason?.trim() || 'The model found no property listing in the payload.';
}

/**
 * Keeps the reading of a payload whose job goes back to the queue, for its next attempt. The end of the job removes it.
 * @throws LeaseLostError
 */
export function saveExtraction(
  db: Kysely<Tables>,
  fence: Fence,
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
