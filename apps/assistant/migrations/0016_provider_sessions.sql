-- Which session at the identity provider an auth session belongs to, for OpenID Connect Back-Channel Logout.

alter table user_auth_sessions
  -- The `sid` of its ID token; null where the provider names none.
  add column if not exists provider_session_id text,
  -- The ID token, encrypted, where signing out here also ends the session at the provider.
  add column if not exists id_token_enc text;

alter table invalidations
  -- Set where one session at the provider ended; `user_id` is null then where the provider names no user.
  add column if not exists provider_session_id text;
