-- The place of a listing in the gazetteer, resolved from its city, district and address. The upkeep resolves the places
-- of older rows, whose place_status is null until then.
alter table property_listings
  add column place_id integer,
  -- The place and the places that contain it, smallest first.
  add column place_path integer[],
  -- City and district as written; the columns `city` and `district` have canonical names.
  add column place_text text,
  add column place_status text,
  -- District as the search normalizer writes it, for districts that the gazetteer does not know.
  add column district_key text;
