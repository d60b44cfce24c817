-- What is known of the address of a listing. A table of its own: each new version of a listing's row puts
-- its vector into the nearest-neighbour index again, and a check of every listing would fill that index
-- with dead vectors, which cost recall.
create table listing_checks (
  listing_id bigint primary key references property_listings (id) on delete cascade,
  -- When it was last asked; null until the first check has ended.
  checked_at timestamptz,
  -- The HTTP status that it answered then; null where there was no answer.
  status integer,
  -- Since when it answers 404 or 410 and nothing else; null: it is not gone.
  gone_since timestamptz,
  -- The payload that the listing was made from then: a newer one is a sign of life.
  gone_raw_id bigint,
  -- Until then it belongs to the run that asks it.
  claimed_until timestamptz
);

-- Those that were asked longest ago come first.
create index listing_checks_oldest on listing_checks (checked_at nulls first);
-- Those that were never asked are found without a look at the listings themselves.
create index property_listings_with_address on property_listings (id)
  include (source_slug, created_at)
  where url is not null and archived_at is null;

-- Work that comes around, such as the removal of old payloads: one process at a time takes its turn.
create table upkeep_turns (
  name text primary key,
  taken_at timestamptz not null default now()
);

-- Which request brought the payload: it leads from the log of the API to that of the worker.
alter table raw_data add column request_id text;
