-- Ranking reads the words of every match, and an exact search by meaning the vector of every listing that
-- passes the filters. Within the row itself each takes one look; in the table of large values it takes
-- three more. Rows that are there already follow when they are next written.
alter table property_listings set (toast_tuple_target = 4080);
alter table property_listings alter column search_vector set storage main;
alter table property_listings alter column embedding set storage main;

-- What a listing is found by beside its words: a short text for each fact that searches filter by, for the
-- band of 1,024 ids that it is in, and for the block of 32 bands. Being in one index with the words, they are
-- intersected before any row is read, so that the newest of a million matches in a common city cost no more
-- than they are.
-- Prices and areas are in steps of a fifth of their logarithm; rows are compared with the exact limits.
create function listing_facets(
  id bigint, deal_type text, city_key text, property_type text,
  source_slug text, price numeric, area_total numeric, rooms integer
) returns text[] language sql immutable parallel safe as $$
  select array_remove(array[
    'band:' || (id >> 10)::text,
    'block:' || (id >> 15)::text,
    'deal:' || deal_type,
    'city:' || city_key,
    'type:' || property_type,
    'source:' || source_slug,
    'price:' || floor(5 * ln(price::float8 + 1))::text,
    'area:' || floor(5 * ln(area_total::float8 + 1))::text,
    'rooms:' || case when rooms > 10 then 10 else rooms end::text
  ], null)
$$;

-- Without lists of pending entries, through which each search would have to read. Archived listings, most of
-- all after some years, have an index of their own.
drop index property_listings_search;
create index property_listings_search on property_listings using gin (
  search_vector,
  listing_facets(id, deal_type, city_key, property_type, source_slug, price, area_total, rooms)
) with (fastupdate = off) where archived_at is null;
create index property_listings_search_archived on property_listings using gin (
  search_vector,
  listing_facets(id, deal_type, city_key, property_type, source_slug, price, area_total, rooms)
) with (fastupdate = off) where archived_at is not null;
