-- How far the payloads of a listing have come. A table of its own, as in 0011: most payloads say what the
-- one before said, and each new version of a listing's row would be put into all of its indexes again, the
-- one of the nearest neighbours among them.
create table listing_payloads (
  source_slug text not null,
  external_id text not null,
  -- The last payload that the listing was made from, or that said the same; an older one never overwrites
  -- what a newer one wrote.
  raw_id bigint not null,
  -- The content hash of that payload once it went through every stage; null while it is on its way.
  completed_hash text,
  primary key (source_slug, external_id),
  foreign key (source_slug, external_id)
    references property_listings (source_slug, external_id) on delete cascade
);
insert into listing_payloads (source_slug, external_id, raw_id, completed_hash)
  select source_slug, external_id, raw_id, completed_hash from property_listings;
alter table property_listings drop column raw_id, drop column completed_hash;

-- When work that comes around was last done, beside when it was last begun: what failed is not waited for
-- as long as what is done.
alter table upkeep_turns add column done_at timestamptz;
update upkeep_turns set done_at = taken_at;

-- Payloads that have ended, the last one first, of all sources or of one, a page after the other. The
-- first of the two also serves what raw_data_finished did: counts, the rate, and the removal of old ones.
-- Pages of what is pending are sorted, a fifth of a second for a backlog of 100,000: an index for them is one
-- that every ingest and every claim would have to write.
create index raw_data_ended on raw_data (status, updated_at, id)
  where status in ('completed', 'invalid', 'failed');
create index raw_data_ended_of_source on raw_data (source_slug, status, updated_at, id)
  where status in ('completed', 'invalid', 'failed');
drop index raw_data_finished;
