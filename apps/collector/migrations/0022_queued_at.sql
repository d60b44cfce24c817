-- Since when a payload is there to be processed that had ended before: it was put back into the queue, or taken to be
-- read again. Null where that is since it came.
alter table raw_data add column queued_at timestamptz;
