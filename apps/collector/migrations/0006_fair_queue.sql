-- Another unfinished payload of the same listing is before this one. It is a hint that keeps what claims
-- look at small; the order of a listing's payloads is guaranteed by the claim itself.
alter table raw_data add column waits boolean not null default false;

-- What can be claimed, source by source. `id + 0` instead of `id`, here and below: these are looked at in
-- the order of ids, and where most rows seem to match, the planner would rather walk along the primary
-- key, past everything that has ended.
create index raw_data_claimable on raw_data (source_slug, (id + 0))
  where status = 'pending' and not waits;
drop index raw_data_pending;

-- Listings of which something waits: for those whose release was missed.
create index raw_data_waiting on raw_data (source_slug, external_id)
  where status = 'pending' and waits;

-- With the status in it, one look tells whether a listing has a payload that is being processed, however
-- many are pending.
drop index raw_data_unfinished;
create index raw_data_unfinished on raw_data (source_slug, external_id, status, (id + 0))
  where status in ('pending', 'processing');

update raw_data set waits = true
where status = 'pending' and exists (
  select from raw_data as other
  where other.source_slug = raw_data.source_slug and other.external_id = raw_data.external_id
    and (other.status = 'processing' or other.status = 'pending' and other.id < raw_data.id));

-- Each payload leaves two dead rows behind, and claims begin where most of them are. By default a vacuum
-- waits for a fifth of the table, which after a year is a million payloads.
alter table raw_data set (
  autovacuum_vacuum_scale_factor = 0.01,
  autovacuum_vacuum_threshold = 5000,
  autovacuum_analyze_scale_factor = 0.02,
  autovacuum_analyze_threshold = 5000
);
