-- Existing listings, then the indexes: of words, stems and filters, and one for each order that people browse in.
call fill_listing_index();

create index concurrently if not exists listing_index_search on listing_index using gin (
  words, stems,
  listing_index_terms(id, is_live, deal_type, city_key, district_key, property_type, source_slug, price, area_total,
    rooms, place_path)
) with (fastupdate = off);
create index concurrently if not exists listing_index_price on listing_index (currency, price, id) where is_live;
create index concurrently if not exists listing_index_price_per_m2
  on listing_index (currency, price_per_m2, id) where is_live;
create index concurrently if not exists listing_index_area on listing_index (area_total, id) where is_live;
create index concurrently if not exists listing_index_position on listing_index (latitude, longitude) where is_live;
create index concurrently if not exists listing_index_duplicates
  on listing_index (duplicate_group) where duplicate_group is not null;
create index concurrently if not exists listing_index_price_fell
  on listing_index (price_changed_at) where price < price_before;
create index concurrently if not exists listing_index_stems_version on listing_index (stems_version);
create index concurrently if not exists listing_index_seen on listing_index (created_at) where is_live;

analyze listing_index;
