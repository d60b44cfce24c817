-- Rows whose place the upkeep has to resolve.
create index concurrently if not exists property_listings_unplaced
  on property_listings (id) where place_status is null;
