-- People's decisions whether two listings are the same property. They take precedence over the score.
create table duplicate_verdicts (
  low_id bigint not null references property_listings (id) on delete cascade,
  high_id bigint not null references property_listings (id) on delete cascade,
  verdict text not null check (verdict in ('same', 'different')),
  -- Name of the API key.
  decided_by text,
  decided_at timestamptz not null default now(),
  primary key (low_id, high_id),
  check (low_id < high_id)
);
create index duplicate_verdicts_high on duplicate_verdicts (high_id, low_id);
