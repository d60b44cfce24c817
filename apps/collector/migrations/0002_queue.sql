-- Payloads as they came, and the queue that they form.
create table raw_data (
  id bigint generated always as identity primary key,
  source_slug text not null references sources (slug),
  external_id text not null,
  payload jsonb not null,
  -- SHA-256 of the payload's canonical JSON: an unchanged payload needs no model.
  content_hash text not null,
  status text not null default 'pending'
    check (status in ('pending', 'processing', 'completed', 'invalid', 'failed')),
  -- The fence: every write of a worker names the attempt that it claimed.
  attempt integer not null default 0,
  -- How many claims count against the limit; one returned at shutdown does not.
  attempts integer not null default 0,
  claimed_by text,
  lease_expires_at timestamptz,
  error jsonb,
  stages jsonb not null default '[]',
  listing_id bigint references property_listings (id) on delete set null,
  idempotency_key text,
  created_at timestamptz not null default now(),
  updated_at timestamptz not null default now()
);

create index raw_data_pending on raw_data (id) where status = 'pending';
create index raw_data_processing on raw_data (lease_expires_at) where status = 'processing';
-- Payloads of one listing are taken in the order in which they came.
create index raw_data_unfinished on raw_data (source_slug, external_id, id)
  where status in ('pending', 'processing');
-- Counts by status, the rate at which jobs end, and the removal of old payloads.
create index raw_data_finished on raw_data (status, updated_at)
  where status in ('completed', 'invalid', 'failed');
-- Serves the reference to the listing, which would else be looked for in the whole table.
create index raw_data_listing on raw_data (listing_id) where listing_id is not null;
create unique index raw_data_idempotency on raw_data (source_slug, idempotency_key)
  where idempotency_key is not null;
