-- The origin of a value that a payload has is "source" (Contract 4, Listings), no longer "payload". A quotation mark within
-- a text has a backslash, so no text of a model or a person contains these words.
update listing_enrichments
set value = replace(replace(value::text,
  '"origin": "payload"', '"origin": "source"'), '"of": "payload"', '"of": "source"')::jsonb
where kind = 'provenance';
update listing_payloads
set corrections = replace(replace(corrections::text,
  '"origin": "payload"', '"origin": "source"'), '"of": "payload"', '"of": "source"')::jsonb
where corrections is not null;
update listing_snapshots set title_by = 'source' where title_by = 'payload';
