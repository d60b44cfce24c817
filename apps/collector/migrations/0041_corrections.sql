-- Corrections of a listing's fields by persons (src/listing/corrections.ts); null without one. The row is the one that
-- every write of a payload locks, so that no payload overwrites a correction that it has not read.
alter table listing_payloads add column corrections jsonb;

-- The person whose correction created the snapshot; null for the snapshots of payloads. Snapshots of corrections have the
-- payload that the listing reflects, with the revisions -1, -2 and so on.
alter table listing_snapshots add column corrected_by jsonb;
