-- One narrow row for each listing with all columns that searches filter, sort and rank by (docs/adr/0029-listing-index.md).
-- The words stay uncompressed in the row: ranking reads those of every match.
create table listing_index (
  id bigint primary key,
  is_live boolean not null,
  source_slug text not null,
  deal_type text,
  property_type text,
  place_path integer[],
  city_key text,
  district_key text,
  price numeric(16, 2),
  currency text,
  price_per_m2 numeric,
  -- Price before the last change in the same currency.
  price_before numeric(16, 2),
  price_changed_at timestamptz,
  area_total numeric(12, 2),
  rooms integer,
  floor integer,
  floors_total integer,
  features text[] not null,
  image_count integer not null default 0,
  latitude double precision,
  longitude double precision,
  duplicate_group bigint,
  created_at timestamptz not null,
  words tsvector not null,
  -- Stems of the words and terms of the facts; null until upkeep has computed them for older rows.
  stems tsvector,
  stems_version integer not null default 0
) with (fillfactor = 90, toast_tuple_target = 8160);
alter table listing_index alter column words set storage main;
alter table listing_index alter column stems set storage main;

-- The filters of a listing as terms, so that one index intersects them with its words. Bands of 1,024 IDs select the newest.
create function listing_index_terms(
  id bigint, is_live boolean, deal_type text, city_key text, district_key text, property_type text,
  source_slug text, price numeric, area_total numeric, rooms integer, place_path integer[]
) returns text[] language sql immutable parallel safe as $$
  select array_remove(array[
    'band:' || (id >> 10)::text,
    'block:' || (id >> 15)::text,
    case when is_live then 'live' end,
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

-- The row of each listing in the index, without stems, images and price history. One coordinate is no position.
create view listing_index_rows as
  select id, archived_at is null as is_live, source_slug, deal_type, property_type, place_path, city_key, district_key,
    price, currency, coalesce(price_per_m2, round(price / nullif(area_total, 0), 2)) as price_per_m2,
    area_total, rooms, floor, floors_total, array(select lower(feature) from unnest(features) as feature) as features,
    case when longitude is not null then latitude end as latitude,
    case when latitude is not null then longitude end as longitude,
    duplicate_group, created_at, search_vector as words
  from property_listings;

-- Keeps the row of a listing up to date, so that no writer can forget it. A writer of new words passes their version and
-- stems for the transaction; otherwise upkeep computes them.
create function index_listing() returns trigger language plpgsql as $$
declare
  passed text := nullif(current_setting('oselya.stems', true), '');
  new_stems tsvector := split_part(passed, ';', 2)::tsvector;
  new_version integer := coalesce(split_part(passed, ';', 1)::integer, 0);
  is_price_change boolean := tg_op = 'UPDATE'
    and (old.price, old.currency) is distinct from (new.price, new.currency)
    and current_setting('oselya.payload_again', true) is distinct from 'true';
  old_price numeric := case when is_price_change and old.currency = new.currency then old.price end;
  -- Without passed stems, those of other facts stay until upkeep has computed new ones.
  keeps_version boolean := tg_op = 'UPDATE' and passed is null
    and (old.deal_type, old.property_type, old.place_path, old.price, old.area_total, old.rooms, old.floor,
      old.floors_total, old.features, old.phones, old.search_text)
    is not distinct from (new.deal_type, new.property_type, new.place_path, new.price, new.area_total, new.rooms,
      new.floor, new.floors_total, new.features, new.phones, new.search_text);
begin
  insert into listing_index as indexed (
    id, is_live, source_slug, deal_type, property_type, place_path, city_key, district_key,
    price, currency, price_per_m2, area_total, rooms, floor, floors_total, features, latitude, longitude,
    duplicate_group, created_at, words, stems, stems_version)
  select listing.*, new_stems, new_version from listing_index_rows as listing where listing.id = new.id
  on conflict (id) do update set
    (is_live, source_slug, deal_type, property_type, place_path, city_key, district_key,
      price, currency, price_per_m2, area_total, rooms, floor, floors_total, features, latitude, longitude,
      duplicate_group, words)
    = (excluded.is_live, excluded.source_slug, excluded.deal_type, excluded.property_type, excluded.place_path,
      excluded.city_key, excluded.district_key, excluded.price, excluded.currency, excluded.price_per_m2,
      excluded.area_total, excluded.rooms, excluded.floor, excluded.floors_total, excluded.features,
      excluded.latitude, excluded.longitude, excluded.duplicate_group, excluded.words),
    stems = case when new_stems is null and indexed.words = excluded.words then indexed.stems else new_stems end,
    stems_version = case when keeps_version then indexed.stems_version else new_version end,
    price_before = case when is_price_change then old_price else indexed.price_before end,
    price_changed_at = case
      when not is_price_change then indexed.price_changed_at
      when old_price is not null then now()
    end;
  return null;
end $$;

create trigger listing_index_inserted after insert on property_listings
  for each row execute function index_listing();
create trigger listing_index_updated after update of
    archived_at, deal_type, property_type, place_path, city_key, district_key, price, currency, price_per_m2,
    area_total, rooms, floor, floors_total, features, latitude, longitude, duplicate_group, phones, search_text
  on property_listings
  for each row when (
    (old.archived_at, old.deal_type, old.property_type, old.place_path, old.city_key, old.district_key, old.price,
      old.currency, old.price_per_m2, old.area_total, old.rooms, old.floor, old.floors_total, old.features,
      old.latitude, old.longitude, old.duplicate_group, old.phones, old.search_text)
    is distinct from
    (new.archived_at, new.deal_type, new.property_type, new.place_path, new.city_key, new.district_key, new.price,
      new.currency, new.price_per_m2, new.area_total, new.rooms, new.floor, new.floors_total, new.features,
      new.latitude, new.longitude, new.duplicate_group, new.phones, new.search_text))
  execute function index_listing();

create function unindex_listing() returns trigger language plpgsql as $$
begin
  delete from listing_index where id = old.id;
  return null;
end $$;
create trigger listing_index_deleted after delete on property_listings
  for each row execute function unindex_listing();

create function count_listing_images() returns trigger language plpgsql as $$
begin
  update listing_index set image_count = counted.images
  from (
    select listing_id, (
      select count(*) from listing_images as image
      where image.listing_id = changed.listing_id and image.sha256 is not null) as images
    from (select distinct listing_id from changed_images) as changed) as counted
  where listing_index.id = counted.listing_id and image_count <> counted.images;
  return null;
end $$;
create trigger listing_images_added after insert on listing_images referencing new table as changed_images
  for each statement execute function count_listing_images();
create trigger listing_images_removed after delete on listing_images referencing old table as changed_images
  for each statement execute function count_listing_images();

-- Adds the listings from before this migration, in transactions of a few thousand. It can be interrupted and called again.
create procedure fill_listing_index() language plpgsql as $$
declare
  last_id bigint := coalesce((select max(id) from property_listings), 0);
  batch_size constant bigint := 5000;
begin
  for first_id in 0..last_id by batch_size loop
    insert into listing_index (
      id, is_live, source_slug, deal_type, property_type, place_path, city_key, district_key, price, currency,
      price_per_m2, area_total, rooms, floor, floors_total, features, latitude, longitude, duplicate_group,
      created_at, words, image_count)
    select listing.*, (
      select count(*) from listing_images where listing_id = listing.id and sha256 is not null)
    from listing_index_rows as listing where id >= first_id and id < first_id + batch_size
    on conflict (id) do nothing;
    commit;
  end loop;
  update listing_index set price_before = change.price_from, price_changed_at = change.created_at
  from (
    select distinct on (listing_id) * from listing_changes
    where kind = 'price_changed' order by listing_id, id desc) as change
  where change.listing_id = listing_index.id and price_changed_at is null
    and change.currency_from = change.currency_to and change.price_to = listing_index.price;
  -- Listings that were deleted while their batch was read.
  delete from listing_index where not exists (select from property_listings where id = listing_index.id);
end $$;
