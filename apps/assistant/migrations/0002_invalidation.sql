-- How old what is cached of a user may be, and who ended whose sessions. Contract 3, User data.

alter table svc_users
  -- Counts the clearings of the cached role and permissions. What was fetched under an earlier count
  -- is neither stored nor used again.
  add column if not exists access_generation bigint not null default 0;

alter table user_auth_sessions
  -- When the provider last described the user to this session, and the count above at that time.
  add column if not exists user_checked_at timestamptz,
  add column if not exists checked_generation bigint,
  -- For people to tell their sign-ins apart.
  add column if not exists user_agent text,
  add column if not exists address text;

-- What ended sessions or cleared access, for a sign-in that is in flight to find out: its user may not
-- have a record yet. Rows of the last hour are kept.
create table if not exists invalidations (
  id bigint generated always as identity primary key,
  -- Null for everybody.
  user_id text,
  kind text not null check (kind in ('sessions', 'access')),
  created_at timestamptz not null default now()
);

-- As rate-limiter-flexible writes it. Unlogged: after a crash counting may start afresh.
create unlogged table if not exists assistant_rate_limits (
  key varchar(255) primary key,
  points integer not null default 0,
  expire bigint
);
