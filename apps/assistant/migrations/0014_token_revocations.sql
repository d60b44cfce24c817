-- Tokens of ended sessions that are still to be revoked at the provider. A row goes when that is done, or was tried often.
create table if not exists token_revocations (
  id bigint generated always as identity primary key,
  -- Of the session that ended: its tokens are encrypted for these two.
  session_id text not null,
  user_id text not null,
  access_token_enc text not null,
  refresh_token_enc text not null,
  attempts integer not null default 0,
  -- When some process tries next; claiming a row moves this on, so that a crash only delays it.
  due_at timestamptz not null default now()
);

create index if not exists token_revocations_due_at on token_revocations (due_at);
