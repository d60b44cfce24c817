-- Prepares tables of an older system for the files that follow, and changes none that those files made.
-- docs/sign-in.md, Coming from an older system.

alter table if exists memory_facts add column if not exists id text default gen_random_uuid()::text;
alter table if exists memory_summaries add column if not exists id text default gen_random_uuid()::text;

do $$
declare
  item record;
begin
  -- Ids and permissions are text: a column of another type is converted. References go first, since both of their
  -- sides have one type; what belongs to a deleted row is deleted without them.
  for item in
    select conrelid::regclass as relation, conname from pg_constraint
    where contype = 'f' and exists (
      select from pg_attribute
      where (attrelid = conrelid and attnum = conkey[1] or attrelid = confrelid and attnum = confkey[1])
        and atttypid not in ('text'::regtype, 'varchar'::regtype)
        and attrelid in (
          to_regclass('svc_users'), to_regclass('user_auth_sessions'), to_regclass('conversation_sessions'),
          to_regclass('conversation_messages'), to_regclass('memory_facts'), to_regclass('memory_summaries')
        )
    )
  loop
    execute format('alter table %s drop constraint %I', item.relation, item.conname);
  end loop;
  for item in
    select attrelid::regclass as relation, attname, attidentity <> '' as is_identity
    from (values
      ('svc_users', 'id'), ('svc_users', 'permissions'),
      ('user_auth_sessions', 'id'), ('user_auth_sessions', 'user_id'),
      ('conversation_sessions', 'id'), ('conversation_sessions', 'user_id'), ('conversation_sessions', 'profile_id'),
      ('conversation_messages', 'id'), ('conversation_messages', 'session_id'),
      ('memory_facts', 'id'), ('memory_facts', 'user_id'), ('memory_facts', 'source_session_id'),
      ('memory_summaries', 'id'), ('memory_summaries', 'user_id')
    ) as columns (table_name, column_name)
    join pg_attribute on attrelid = to_regclass(table_name) and attname = column_name
    where atttypid not in ('text'::regtype, 'varchar'::regtype)
  loop
    if item.is_identity then
      execute format('alter table %s alter column %I drop identity', item.relation, item.attname);
    end if;
    execute format(
      'alter table %s alter column %I drop default, alter column %I type text using %I::text',
      item.relation, item.attname, item.attname, item.attname
    );
  end loop;

  -- The category of a fact may be unknown, which a key of facts by their names would forbid.
  for item in
    select conrelid::regclass as relation, conname from pg_constraint
    where contype = 'p' and conrelid = to_regclass('memory_facts')
      and conkey <> array(select attnum from pg_attribute where attrelid = conrelid and attname = 'id')
  loop
    execute format('alter table %s drop constraint %I', item.relation, item.conname);
  end loop;

  -- Rows are found, referenced and replaced by their id.
  for item in
    select attrelid::regclass as relation
    from unnest(array[
      'svc_users', 'user_auth_sessions', 'conversation_sessions', 'conversation_messages', 'memory_facts',
      'memory_summaries'
    ]) as table_name
    join pg_attribute on attrelid = to_regclass(table_name) and attname = 'id'
    where not exists (
      select from pg_index
      where indrelid = attrelid and indisunique and indnatts = 1 and indkey[0] = attnum and indpred is null
    )
  loop
    execute format('create unique index on %s (id)', item.relation);
  end loop;
end
$$;
