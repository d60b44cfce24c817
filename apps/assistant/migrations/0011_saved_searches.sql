-- Saved searches and their digests: docs/adr/0025-saved-searches.md.

create table saved_searches (
  id text primary key default gen_random_uuid()::text,
  user_id text not null,
  -- Where it reports to. Null, which pauses it, once that session has been deleted.
  session_id text references conversation_sessions (id) on delete set null,
  name text not null,
  -- Words and filters, as the collector takes them.
  search jsonb not null,
  every_minutes integer not null,
  paused boolean not null default false,
  created_at timestamptz not null default now(),
  updated_at timestamptz not null default now(),
  -- The last digest; null before the first one.
  told_at timestamptz
);

create index saved_searches_owner on saved_searches (user_id);
create index saved_searches_session on saved_searches (session_id) where session_id is not null;

-- Which listings a search has found: each one once.
create table saved_search_hits (
  search_id text not null references saved_searches (id) on delete cascade,
  listing_id bigint not null,
  kind text not null check (kind in ('new', 'cheaper')),
  -- What it cost before, where it has become cheaper; in the currency of the listing.
  old_price double precision,
  -- What a digest tells of it; null once that has been told.
  listing jsonb,
  found_at timestamptz not null default now(),
  -- Null while it waits for a digest.
  told_at timestamptz,
  primary key (search_id, listing_id)
);

create index saved_search_hits_waiting on saved_search_hits (search_id, found_at) where told_at is null;

-- How far the collector's feed of changes has been read, and which process reads it.
create table collector_feed (
  -- There is one.
  id boolean primary key default true check (id),
  -- Null before the collector has answered for the first time.
  cursor text,
  holder text,
  lease_until timestamptz,
  -- When there was nothing more to read.
  caught_up_at timestamptz not null default now()
);

insert into collector_feed default values;

-- A digest is a turn that answers nothing.
alter table chat_turns alter column question_id drop not null;

alter table conversation_messages
  -- What models are told of a message instead of its text, which strangers wrote a part of.
  add column if not exists kept text;
