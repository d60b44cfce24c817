-- What the model read out of a payload whose job went back to the queue, for its next attempt: by which prompt and
-- model, and at which revision of the payload. The job's end removes it. It is text that is not looked into (json):
-- models write what jsonb refuses, such as a zero character.
create table raw_readings (
  raw_id bigint primary key references raw_data (id) on delete cascade,
  revision integer not null,
  extraction json not null,
  model text not null,
  requested_model text not null,
  prompt_version text not null
);

-- The payload whose turn it is to ask a picture's address again, until it has told what became of it; null where it
-- is nobody's (see retry_at).
alter table listing_images add column turn_raw_id bigint;
