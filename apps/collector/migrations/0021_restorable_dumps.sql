-- A dump writes this trigger with every name in its schema, which `is distinct from` cannot have for the operator of a
-- type of an extension: a restore failed there, or went on without the trigger (so it may be missing). Vectors are
-- compared by operators.
drop trigger if exists duplicates_of_changed on property_listings;
create trigger duplicates_of_changed
  after update of
    archived_at, deal_type, property_type, city_key, district, address, rooms, area_total, floor, floors_total,
    latitude, longitude, price, currency, phones, search_text, embedding
  on property_listings
  for each row when (
    (old.archived_at is null) is distinct from (new.archived_at is null)
    or old.deal_type is distinct from new.deal_type
    or old.property_type is distinct from new.property_type
    or old.city_key is distinct from new.city_key
    or old.district is distinct from new.district
    or old.address is distinct from new.address
    or old.rooms is distinct from new.rooms
    or old.area_total is distinct from new.area_total
    or old.floor is distinct from new.floor
    or old.floors_total is distinct from new.floors_total
    or old.latitude is distinct from new.latitude
    or old.longitude is distinct from new.longitude
    or old.price is distinct from new.price
    or old.currency is distinct from new.currency
    or old.phones is distinct from new.phones
    or old.search_text is distinct from new.search_text
    or (old.embedding is null) <> (new.embedding is null)
    or old.embedding <> new.embedding)
  execute function mark_listing();
