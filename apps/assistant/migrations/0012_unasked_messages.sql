alter table conversation_messages
  -- Whether it came by itself, such as a digest: it answers no other message.
  add column if not exists unasked boolean not null default false;

update conversation_messages set unasked = true where kept is not null;
