-- What is in progress, source by source: claims prefer the sources that have the least of it. Lost leases are
-- looked for in the same index, which is as small as the number of slots of all workers.
create index concurrently if not exists raw_data_in_progress
  on raw_data (source_slug, lease_expires_at) where status = 'processing';
drop index concurrently if exists raw_data_processing;

-- What has lost a worker and waits for another: a last attempt is made alone, and looked for here. `id + 0` as in
-- 0006.
create index concurrently if not exists raw_data_rescued
  on raw_data ((id + 0)) where status = 'pending' and attempts > 0;
