-- What the payload's way through the pipeline cost of the model, over all attempts.
alter table raw_data add column model_usage jsonb;

-- By which model and which prompt a payload was read.
alter table listing_snapshots
  add column model text,
  add column prompt_version text;

-- Who named each fact was one word; now it is an object, and tells from which payload it came.
update listing_enrichments as enrichment set value = jsonb_build_object(
  'raw_id', listing.raw_id,
  'model', enrichment.value -> 'model',
  'requested_model', null,
  'prompt_version', enrichment.value -> 'prompt',
  'fields', (
    select coalesce(jsonb_object_agg(field.key, jsonb_build_object('origin', field.value)), '{}')
    from jsonb_each(enrichment.value -> 'fields') as field))
from property_listings as listing
where listing.id = enrichment.listing_id and enrichment.kind = 'provenance';
