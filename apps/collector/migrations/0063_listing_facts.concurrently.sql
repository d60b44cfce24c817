-- Existing listings, then the indexes of filters and of each order that people browse in, which move to the smaller table.
call fill_listing_facts();

create index concurrently if not exists listing_facts_terms on listing_facts using gin (
  listing_index_terms(id, is_live, deal_type, city_key, district_key, property_type, source_slug, price, area_total,
    rooms, place_path)
) with (fastupdate = off);
create index concurrently if not exists listing_facts_price
  on listing_facts (currency, deal_type, price, id) where is_live;
create index concurrently if not exists listing_facts_price_per_m2
  on listing_facts (currency, deal_type, price_per_m2, id) where is_live;
create index concurrently if not exists listing_facts_area on listing_facts (area_total, id) where is_live;
create index concurrently if not exists listing_facts_position on listing_facts (latitude, longitude) where is_live;
create index concurrently if not exists listing_facts_duplicates
  on listing_facts (duplicate_group) where duplicate_group is not null;
create index concurrently if not exists listing_facts_price_fell
  on listing_facts (price_changed_at) where price < price_before;
create index concurrently if not exists listing_facts_seen on listing_facts (created_at) where is_live;
drop index concurrently if exists listing_index_price;
drop index concurrently if exists listing_index_price_per_m2;
drop index concurrently if exists listing_index_area;
drop index concurrently if exists listing_index_position;
drop index concurrently if exists listing_index_duplicates;
drop index concurrently if exists listing_index_price_fell;
drop index concurrently if exists listing_index_seen;

analyze listing_facts;
