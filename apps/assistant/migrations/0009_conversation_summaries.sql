-- What the earlier messages of a session say, which the model is sent in their place.

create table conversation_summaries (
  session_id text primary key references conversation_sessions (id) on delete cascade,
  summary text not null,
  -- The last message that it tells of: microseconds since 1970, where that is known, and its number.
  through_sent_us bigint,
  through_position bigint not null,
  -- Each is made from the one before it, so that of two that were made from the same one is stored.
  revision integer not null,
  updated_at timestamptz not null default now()
);
