-- Payloads that came with their pictures are processed within their request. Until they are completed
-- the pictures are with the process that received them, and gone with it: such a payload never goes back
-- to the queue.
alter table raw_data
  add column inline boolean not null default false,
  -- What became of the pictures that came along, in their order; null where none did.
  add column uploads jsonb;
