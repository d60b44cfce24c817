-- Specification 000, Ownership columns; Contract 3, Tables. As in 0004, older rows stay as they are,
-- but for doubles, which the identity of facts and summaries does not allow.

create table if not exists memory_facts (
  id text primary key default gen_random_uuid()::text,
  category text not null,
  key text not null,
  value text not null
);

alter table memory_facts
  -- Null marks a legacy fact, visible only to admins.
  add column if not exists user_id text,
  add column if not exists source_session_id text,
  add column if not exists created_at timestamptz,
  add column if not exists updated_at timestamptz;

-- A default that comes after its column leaves the time of older rows unknown, instead of now.
alter table memory_facts
  alter column created_at set default now(),
  alter column updated_at set default now();

-- A fact is identified within a user by (category, key): of older doubles the newest stays.
delete from memory_facts older using memory_facts newer
where older.user_id = newer.user_id and older.category = newer.category and older.key = newer.key
  and (coalesce(older.updated_at, older.created_at, '-infinity'), older.id)
    < (coalesce(newer.updated_at, newer.created_at, '-infinity'), newer.id);

create unique index if not exists memory_facts_identity on memory_facts (user_id, category, key);
create index if not exists memory_facts_written
  on memory_facts (coalesce(updated_at, created_at, '-infinity') desc, id desc);

create table if not exists memory_summaries (
  id text primary key default gen_random_uuid()::text,
  summary text not null
);

alter table memory_summaries
  -- Null marks a legacy summary, visible only to admins.
  add column if not exists user_id text,
  add column if not exists updated_at timestamptz;

alter table memory_summaries
  alter column updated_at set default now();

-- A user has one summary: the newest of several takes the texts of the others in, the older ones first.
with texts as (
  select user_id, summary, min(coalesce(updated_at, '-infinity')) as since, min(id) as first_id
  from memory_summaries where user_id is not null group by user_id, summary
), merged as (
  select user_id, string_agg(summary, E'\n\n' order by since, first_id) as summary
  from texts group by user_id having count(*) > 1
)
update memory_summaries set summary = merged.summary
from merged where memory_summaries.user_id = merged.user_id;

delete from memory_summaries older using memory_summaries newer
where older.user_id = newer.user_id
  and (coalesce(older.updated_at, '-infinity'), older.id)
    < (coalesce(newer.updated_at, '-infinity'), newer.id);

create unique index if not exists memory_summaries_owner on memory_summaries (user_id);
create index if not exists memory_summaries_updated
  on memory_summaries (coalesce(updated_at, '-infinity') desc, id desc);
