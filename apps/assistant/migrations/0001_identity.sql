-- Specification 000, User record and Auth session record. Tables are created when absent and never
-- dropped; what they have beside the specification's columns is nullable or has a default, so that
-- rows of an older system stay as they are.

create table if not exists svc_users (
  id text primary key,
  email text not null,
  display_name text,
  role text not null default 'user' check (role in ('user', 'admin')),
  permissions text not null default '[]',
  created_at timestamptz not null default now(),
  updated_at timestamptz not null default now()
);

create table if not exists user_auth_sessions (
  id text primary key,
  user_id text not null references svc_users (id) on delete cascade,
  access_token_enc text not null,
  refresh_token_enc text not null,
  expires_at timestamptz,
  created_at timestamptz not null default now(),
  last_used_at timestamptz not null default now()
);

alter table user_auth_sessions
  -- Counts the refreshes. Whoever writes or deletes because of a token names the version it had.
  add column if not exists token_version integer not null default 0,
  -- Until then one process refreshes; null when nobody does or the last one was not answered.
  add column if not exists refresh_lease_until timestamptz;

create index if not exists user_auth_sessions_user_id on user_auth_sessions (user_id);
create index if not exists user_auth_sessions_created_at on user_auth_sessions (created_at);

create table if not exists pending_logins (
  state text primary key,
  code_verifier text not null,
  -- 'android', or null for a browser.
  platform text,
  -- The browser that began; null for Android, which ends in another one.
  browser_id text,
  -- The auth session which that browser had then. It ends with the sign-in.
  earlier_session_id text,
  expires_at timestamptz not null
);

create index if not exists pending_logins_browser_id on pending_logins (browser_id);
create index if not exists pending_logins_expires_at on pending_logins (expires_at);
