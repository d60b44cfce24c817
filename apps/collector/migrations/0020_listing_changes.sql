-- What is new, has another price, or is back, for those who follow the listings. Rows are removed after a month.
create table listing_changes (
  id bigint generated always as identity primary key,
  -- The order in which they are read, given when they are committed (ADR 0021): ids are taken before that, so
  -- that whoever has read the larger one would never see the smaller one that is committed later.
  position bigint,
  listing_id bigint not null,
  source_slug text not null,
  kind text not null check (kind in ('new', 'price_changed', 'returned')),
  price_from numeric(16, 2),
  price_to numeric(16, 2),
  currency_from text,
  currency_to text,
  created_at timestamptz not null default now()
);
create sequence listing_changes_positions;
create unique index listing_changes_read on listing_changes (position) where position is not null;
create index listing_changes_waiting on listing_changes (id) where position is null;

-- As with the marks of 0009, changes are noted where the rows are written: none can be forgotten.
create function note_new_listing() returns trigger language plpgsql as $$
begin
  insert into listing_changes (listing_id, source_slug, kind)
    values (new.id, new.source_slug, 'new');
  return null;
end $$;
create trigger changes_of_new after insert on property_listings
  for each row when (new.archived_at is null)
  execute function note_new_listing();

-- A price that is read differently out of the payload that the listing was made from is no change of it: whoever
-- writes such a one says so for the transaction.
create function note_changed_listing() returns trigger language plpgsql as $$
begin
  if old.archived_at is not null then
    insert into listing_changes (listing_id, source_slug, kind)
      values (new.id, new.source_slug, 'returned');
  end if;
  if (old.price, old.currency) is distinct from (new.price, new.currency)
    and current_setting('oselya.payload_again', true) is distinct from 'true' then
    insert into listing_changes
      (listing_id, source_slug, kind, price_from, price_to, currency_from, currency_to)
      values (new.id, new.source_slug, 'price_changed',
        old.price, new.price, old.currency, new.currency);
  end if;
  return null;
end $$;
create trigger changes_of_changed after update of price, currency, archived_at on property_listings
  for each row when (new.archived_at is null and (
    old.archived_at is not null
    or old.price is distinct from new.price
    or old.currency is distinct from new.currency))
  execute function note_changed_listing();
