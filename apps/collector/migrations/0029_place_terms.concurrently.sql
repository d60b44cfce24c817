-- The indexes of words and filters (0010) with places. Built beside the old ones, so that searches go on.
create index concurrently if not exists property_listings_terms on property_listings using gin (
  search_vector,
  listing_terms(id, deal_type, city_key, district_key, property_type, source_slug, price, area_total, rooms, place_path)
) with (fastupdate = off) where archived_at is null;
create index concurrently if not exists property_listings_terms_archived on property_listings using gin (
  search_vector,
  listing_terms(id, deal_type, city_key, district_key, property_type, source_slug, price, area_total, rooms, place_path)
) with (fastupdate = off) where archived_at is not null;

-- Rows whose place the upkeep has to resolve.
create index concurrently if not exists property_listings_unplaced
  on property_listings (id) where place_status is null;

drop index concurrently if exists property_listings_search;
drop index concurrently if exists property_listings_search_archived;
