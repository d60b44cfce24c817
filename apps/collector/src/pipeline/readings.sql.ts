import { type Kysely, sql } from 'kysely';
import type { Tables } from '../tables.ts';
import { type Fence, heldClaim, LeaseLostError } from '../queue/index.ts';
import { type Extracted, extractionPrompt } from './extraction.ts';

/**
 * Keeps what was read out of a payload whose job goes back to the queue: its next attempt takes that, and does not
 * ask the model again (see `loadPayload`). Whatever ends the job removes it. ADR 0010.
 * @throws LeaseLostError where the claim is no longer held; then nothing changed.
 */
export async function keepReading(
  db: Kysely<Tables>,
  fence: Fence,
  { extraction, model, requestedModel }: Extracted,
): Promise<void> {
  const { rows } = await sql<{ held: boolean }>`
    with claim as materialized (${heldClaim(fence)}),
    written as (
      insert into raw_readings
        (raw_id, revision, extraction, model, requested_model, prompt_version)
      select raw_data.id, raw_data.revision, ${JSON.stringify(extraction)}::json, ${model}::text,
        ${requestedModel}::text, ${extractionPrompt.version}::text
      from claim join raw_data using (id)
      on conflict (raw_id) do update set revision = excluded.revision,
        extraction = excluded.extraction, model = excluded.model,
        requested_model = excluded.requested_model, prompt_version = excluded.prompt_version)
    select exists (select from claim) as held`.execute(db);
  if (rows[0]?.held !== true) throw new LeaseLostError(fence);
}
