create table api_keys (
  id text primary key,
  name text not null,
  -- SHA-256 of the key; the key itself is shown once and never kept.
  key_hash text not null unique,
  scopes text[] not null,
  -- Which sources the key may send for; null is any.
  source_slugs text[],
  created_at timestamptz not null default now(),
  last_used_at timestamptz,
  revoked_at timestamptz
);
