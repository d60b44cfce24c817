-- Who did what, and what the identity provider told. Contract 3, Webhooks; Further endpoints.

create table if not exists audit_log (
  id bigint generated always as identity primary key,
  created_at timestamptz not null default now(),
  action text not null,
  -- Who did it; null for the provider and for the operator's command.
  actor_id text,
  -- Whose data or sign-in it was; null where it was everybody's.
  user_id text,
  details jsonb not null default '{}'
);

create index if not exists audit_log_created_at on audit_log (created_at);
create index if not exists audit_log_user_id on audit_log (user_id, id);

create table if not exists webhook_events (
  id bigint generated always as identity primary key,
  received_at timestamptz not null default now(),
  -- The signed id of the delivery, which is acted on once; null where the provider signs none.
  delivery_id text unique,
  -- How it was signed: 'hmac', over the body alone, or 'standard', as Standard Webhooks says.
  signature text not null,
  -- Null where the body names none.
  event text,
  user_id text,
  -- 'applied', or 'ignored' where the event changes nothing here.
  outcome text not null,
  sessions_ended integer not null default 0,
  -- Of the raw body: equal deliveries can be told.
  body_sha256 text not null
);

create index if not exists webhook_events_received_at on webhook_events (received_at);
