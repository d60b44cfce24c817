-- Listings with an address wait for their first check from the moment that they have one, so that the oldest checks are
-- found in one index.
insert into listing_checks (listing_id)
  select id from property_listings where url is not null and archived_at is null
  on conflict do nothing;

create function await_archive_check() returns trigger language plpgsql as $$
begin
  insert into listing_checks (listing_id) values (new.id) on conflict do nothing;
  return null;
end $$;
create trigger archive_check_of_new after insert on property_listings
  for each row when (new.url is not null and new.archived_at is null)
  execute function await_archive_check();
create trigger archive_check_of_changed after update of url, archived_at on property_listings
  for each row when (
    new.url is not null and new.archived_at is null
    and (old.url is null or old.archived_at is not null))
  execute function await_archive_check();

drop index property_listings_with_address;

-- The lease of upkeep: packages/db/src/lease.ts.
alter table upkeep_turns add column holder text, add column lease_until timestamptz;
