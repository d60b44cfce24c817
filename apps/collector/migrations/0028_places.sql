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

-- As `listing_facets`, which the previous version still uses, with places. A path has at most six places. Without
-- subqueries, PostgreSQL evaluates the function as an expression.
create function listing_terms(
  id bigint, deal_type text, city_key text, district_key text, property_type text,
  source_slug text, price numeric, area_total numeric, rooms integer, place_path integer[]
) returns text[] language sql immutable parallel safe as $$
  select array_remove(array[
    'band:' || (id >> 10)::text,
    'block:' || (id >> 15)::text,
    'deal:' || deal_type,
    'city:' || city_key,
    'district:' || district_key,
    'type:' || property_type,
    'source:' || source_slug,
    'price:' || floor(5 * ln(price::float8 + 1))::text,
    'area:' || floor(5 * ln(area_total::float8 + 1))::text,
    'rooms:' || case when rooms > 10 then 10 else rooms end::text,
    'place:' || place_path[1]::text,
    'place:' || place_path[2]::text,
    'place:' || place_path[3]::text,
    'place:' || place_path[4]::text,
    'place:' || place_path[5]::text,
    'place:' || place_path[6]::text
  ], null)
$$;
