-- The origin of a value that a payload has is "source" (Contract 4, Listings), no longer "payload". A quotation mark within
-- a text has a backslash, so no text of a model or a person contains these words.
create function rename_payload_origins(value jsonb) returns jsonb language sql immutable as $$
  select replace(replace(value::text,
    '"origin": "payload"', '"origin": "source"'), '"of": "payload"', '"of": "source"')::jsonb
$$;

update listing_payloads set corrections = rename_payload_origins(corrections) where corrections is not null;

create procedure rename_listing_origins() language plpgsql as $$
declare
  last_id bigint := coalesce((select max(id) from property_listings), 0);
  batch_size constant bigint := 10000;
begin
  for first_id in 0..last_id by batch_size loop
    update listing_enrichments set value = rename_payload_origins(value)
    where listing_id >= first_id and listing_id < first_id + batch_size
      and kind = 'provenance' and value <> rename_payload_origins(value);
    update listing_snapshots set title_by = 'source'
    where listing_id >= first_id and listing_id < first_id + batch_size and title_by = 'payload';
    commit;
  end loop;
end $$;
