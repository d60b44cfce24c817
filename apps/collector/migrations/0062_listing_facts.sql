-- The facts of each listing again without its words, in rows of a twelfth of the size: searches without words read
-- thousands of them (docs/adr/0029-listing-index.md). A trigger copies them from listing_index.
create table listing_facts as select
  id, is_live, source_slug, deal_type, property_type, place_path, city_key, district_key, price, currency, price_per_m2,
  price_before, price_changed_at, area_total, rooms, floor, floors_total, features, image_count, latitude, longitude,
  duplicate_group, created_at
from listing_index with no data;
alter table listing_facts add primary key (id);
alter table listing_facts set (fillfactor = 90);

create function copy_listing_facts() returns trigger language plpgsql as $$
begin
  if tg_op = 'DELETE' then
    delete from listing_facts where id = old.id;
    return null;
  end if;
  insert into listing_facts values (
    new.id, new.is_live, new.source_slug, new.deal_type, new.property_type, new.place_path, new.city_key,
    new.district_key, new.price, new.currency, new.price_per_m2, new.price_before, new.price_changed_at,
    new.area_total, new.rooms, new.floor, new.floors_total, new.features, new.image_count, new.latitude,
    new.longitude, new.duplicate_group, new.created_at)
  on conflict (id) do update set (
    is_live, source_slug, deal_type, property_type, place_path, city_key, district_key, price, currency, price_per_m2,
    price_before, price_changed_at, area_total, rooms, floor, floors_total, features, image_count, latitude, longitude,
    duplicate_group, created_at) = (
    excluded.is_live, excluded.source_slug, excluded.deal_type, excluded.property_type, excluded.place_path,
    excluded.city_key, excluded.district_key, excluded.price, excluded.currency, excluded.price_per_m2,
    excluded.price_before, excluded.price_changed_at, excluded.area_total, excluded.rooms, excluded.floor,
    excluded.floors_total, excluded.features, excluded.image_count, excluded.latitude, excluded.longitude,
    excluded.duplicate_group, excluded.created_at);
  return null;
end $$;

create trigger listing_facts_added after insert or delete on listing_index
  for each row execute function copy_listing_facts();
create trigger listing_facts_changed after update on listing_index
  for each row when (
    (old.is_live, old.source_slug, old.deal_type, old.property_type, old.place_path, old.city_key, old.district_key,
      old.price, old.currency, old.price_per_m2, old.price_before, old.price_changed_at, old.area_total, old.rooms,
      old.floor, old.floors_total, old.features, old.image_count, old.latitude, old.longitude, old.duplicate_group)
    is distinct from
    (new.is_live, new.source_slug, new.deal_type, new.property_type, new.place_path, new.city_key, new.district_key,
      new.price, new.currency, new.price_per_m2, new.price_before, new.price_changed_at, new.area_total, new.rooms,
      new.floor, new.floors_total, new.features, new.image_count, new.latitude, new.longitude, new.duplicate_group))
  execute function copy_listing_facts();

-- Adds the listings from before this migration, in transactions of a few thousand. It can be interrupted and called again.
create procedure fill_listing_facts() language plpgsql as $$
declare
  last_id bigint := coalesce((select max(id) from listing_index), 0);
  batch_size constant bigint := 10000;
begin
  for first_id in 0..last_id by batch_size loop
    insert into listing_facts
    select
      id, is_live, source_slug, deal_type, property_type, place_path, city_key, district_key, price, currency,
      price_per_m2, price_before, price_changed_at, area_total, rooms, floor, floors_total, features, image_count,
      latitude, longitude, duplicate_group, created_at
    from listing_index where id >= first_id and id < first_id + batch_size
    for key share
    on conflict (id) do nothing;
    commit;
  end loop;
end $$;
