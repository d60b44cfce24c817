-- The smallest id of a group of listings that are likely the same property; null: there is no other.
alter table property_listings add column duplicate_group bigint;
create index property_listings_duplicate_group on property_listings (duplicate_group)
  where duplicate_group is not null;

-- What the same property has in common wherever it is listed: those that agree are compared. All of the
-- conditions of such a look are in the index, so that a common city costs no rows that are not compared.
create index property_listings_alike on property_listings
  (city_key, deal_type, rooms, area_total, floor, price)
  where archived_at is null;

-- What a picture looks like, in 64 bits: of its copies in other sizes and qualities all but a few are the
-- same. Null: not worked out yet; 0: there is nothing to see on it.
alter table images add column fingerprint bigint;
create index images_without_fingerprint on images (sha256) where fingerprint is null;

-- Of two fingerprints that differ in three bits or fewer, one of four parts is the same in both.
create function fingerprint_parts(fingerprint bigint) returns integer[]
language sql immutable strict parallel safe as $$
  select array[
    (fingerprint & 65535)::integer,
    65536 + ((fingerprint >> 16) & 65535)::integer,
    131072 + ((fingerprint >> 32) & 65535)::integer,
    196608 + ((fingerprint >> 48) & 65535)::integer]
$$;
create index images_fingerprint on images using gin (fingerprint_parts(fingerprint))
  with (fastupdate = off) where fingerprint <> 0;

-- Two listings that are likely the same property, and what speaks for it.
create table duplicate_pairs (
  low_id bigint not null references property_listings (id) on delete cascade,
  high_id bigint not null references property_listings (id) on delete cascade,
  score real not null,
  reasons jsonb not null,
  updated_at timestamptz not null default now(),
  primary key (low_id, high_id),
  check (low_id < high_id)
);
create index duplicate_pairs_high on duplicate_pairs (high_id, low_id);

-- Listings to look for duplicates of, since something about them changed: one row a change, so that
-- whoever writes it never waits for another. A table of its own, as in 0011: a listing's row is not
-- written again for it.
create table duplicate_marks (
  id bigint generated always as identity primary key,
  listing_id bigint not null,
  marked_at timestamptz not null default now(),
  -- Until then it belongs to the process that looks.
  claimed_until timestamptz,
  -- How often it was looked at in vain: each time is followed by a longer pause.
  attempts integer not null default 0
);

-- Marks are made where the rows are written, whoever writes them: none can be forgotten.
create function mark_listing() returns trigger language plpgsql as $$
begin
  insert into duplicate_marks (listing_id) values (new.id);
  return null;
end $$;
create trigger duplicates_of_new after insert on property_listings
  for each row execute function mark_listing();
-- Named columns: a change of others, such as the group itself, is not even compared, for which the words
-- and the vector would be read out of the table of large values.
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
    or old.embedding is distinct from new.embedding)
  execute function mark_listing();

create function mark_listing_of_pictures() returns trigger language plpgsql as $$
begin
  insert into duplicate_marks (listing_id) select distinct listing_id from changed;
  return null;
end $$;
create trigger duplicates_of_new_pictures after insert on listing_images
  referencing new table as changed
  for each statement execute function mark_listing_of_pictures();
create trigger duplicates_of_removed_pictures after delete on listing_images
  referencing old table as changed
  for each statement execute function mark_listing_of_pictures();

create function mark_listings_with_picture() returns trigger language plpgsql as $$
begin
  insert into duplicate_marks (listing_id)
    select distinct listing_id from listing_images where sha256 = new.sha256;
  return null;
end $$;
create trigger duplicates_of_fingerprint after update of fingerprint on images
  for each row when (old.fingerprint is distinct from new.fingerprint)
  execute function mark_listings_with_picture();

-- Its pairs go with a listing. What it held together is put together again without it, under the lock of
-- those who write groups (0x6475706c).
create function disband_duplicate_group() returns trigger language plpgsql as $$
begin
  perform pg_advisory_xact_lock(1685418092);
  with disbanded as (
    update property_listings set duplicate_group = null
    where duplicate_group = old.duplicate_group returning id)
  insert into duplicate_marks (listing_id) select id from disbanded;
  return null;
end $$;
create trigger duplicates_of_deleted after delete on property_listings
  for each row when (old.duplicate_group is not null)
  execute function disband_duplicate_group();

-- Older listings are looked at as if they had just changed, one after another.
insert into duplicate_marks (listing_id)
  select id from property_listings where archived_at is null order by id;
