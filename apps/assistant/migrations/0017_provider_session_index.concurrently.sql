-- Logout tokens may name a session without its user.
create index concurrently if not exists user_auth_sessions_provider_session_id
  on user_auth_sessions (provider_session_id) where provider_session_id is not null;
