-- Sign-ins of the terminal client: docs/adr/0024-sign-in-of-the-terminal.md.

alter table pending_logins
  -- What a terminal asked with: port, state and code challenge. Null for every other platform.
  add column if not exists terminal jsonb;

-- Sign-ins that came back from the provider, and that their terminal does not have yet.
create table if not exists terminal_sign_ins (
  id text primary key,
  -- Whatever ends the auth session ends this as well.
  auth_session_id text not null unique references user_auth_sessions (id) on delete cascade,
  -- The browser that began it, which alone may agree to it.
  browser_id text not null,
  port integer not null,
  state text not null,
  code_challenge text not null,
  -- Null until the person has agreed; the code itself is kept nowhere.
  code_sha256 text unique,
  expires_at timestamptz not null
);

create index if not exists terminal_sign_ins_expires_at on terminal_sign_ins (expires_at);
