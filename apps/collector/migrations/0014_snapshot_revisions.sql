-- A payload may be read again, long after it was processed: what it makes of the listing then is a snapshot of
-- its own, beside the one that tells what the listing said until then.

-- The attempt at which the payload was last taken to be read again; 0 while it never was. Whoever goes on with
-- it after that process was killed still knows that it is.
alter table raw_data add column revision integer not null default 0;

-- The payload's revision when the snapshot was made: 0 for what its source has sent.
alter table listing_snapshots add column revision integer not null default 0;
alter table listing_snapshots drop constraint listing_snapshots_listing_id_raw_id_key;
alter table listing_snapshots add unique (listing_id, raw_id, revision);
