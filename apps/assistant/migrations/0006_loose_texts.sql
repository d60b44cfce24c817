-- Rows of an older system may lack a text, and are inserted as they are: it is read as an empty one.
-- Contract 3, Tables.

alter table conversation_messages alter column content drop not null;

alter table memory_facts
  alter column category drop not null,
  alter column value drop not null;

alter table memory_summaries alter column summary drop not null;
