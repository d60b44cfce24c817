-- Until when the owner of a session has read it; null if that is not known. Triggers notify the other clients of a user
-- about changed sessions and marks.

alter table conversation_sessions add column read_at timestamptz;

create function notify_user_change() returns trigger language plpgsql as $$
declare
  owner_id text := case when tg_op = 'DELETE' then old.user_id else new.user_id end;
begin
  if owner_id is not null then
    perform pg_notify('assistant_user_changes', tg_argv[0] || ' ' || owner_id);
  end if;
  return null;
end
$$;

create trigger notify_change after insert or update or delete on conversation_sessions
  for each row execute function notify_user_change('sessions');

create trigger notify_change after insert or update or delete on listing_marks
  for each row execute function notify_user_change('marks');
