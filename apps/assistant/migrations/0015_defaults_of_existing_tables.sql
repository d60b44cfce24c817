-- Tables of an older system may lack the defaults that 0001, 0004 and 0005 give to new ones, and their rows what those
-- would have set. Specification 000, Resources and their fields; Contract 3, Tables.

alter table svc_users
  alter column role set default 'user',
  alter column permissions set default '[]',
  alter column created_at set default now(),
  alter column updated_at set default now();

update svc_users set
  role = coalesce(role, 'user'),
  permissions = coalesce(permissions, '[]'),
  created_at = coalesce(created_at, updated_at, now()),
  updated_at = coalesce(updated_at, created_at, now())
where num_nulls(role, permissions, created_at, updated_at) > 0;

alter table user_auth_sessions
  alter column created_at set default now(),
  alter column last_used_at set default now();

update user_auth_sessions set
  created_at = coalesce(created_at, last_used_at, now()),
  last_used_at = coalesce(last_used_at, created_at, now())
where num_nulls(created_at, last_used_at) > 0;

alter table conversation_sessions
  alter column id set default gen_random_uuid()::text,
  alter column pinned set default false,
  alter column created_at set default now(),
  alter column last_active set default now();

-- A time that nothing tells stays unknown here and below: such rows come last, and newer facts win over them.
update conversation_sessions set
  pinned = coalesce(pinned, false),
  created_at = coalesce(created_at, last_active),
  last_active = coalesce(last_active, created_at)
where pinned is null or num_nulls(created_at, last_active) = 1;

alter table conversation_messages
  alter column id set default gen_random_uuid()::text,
  alter column created_at set default now();

alter table memory_facts alter column id set default gen_random_uuid()::text;

update memory_facts set
  created_at = coalesce(created_at, updated_at),
  updated_at = coalesce(updated_at, created_at)
where num_nulls(created_at, updated_at) = 1;

alter table memory_summaries alter column id set default gen_random_uuid()::text;
