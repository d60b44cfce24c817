-- Finds the listings whose property type is not resolved yet. It is empty once upkeep has resolved all of them.
create index concurrently if not exists property_listings_unresolved_types on property_listings (id)
  where property_type not in ('apartment', 'house', 'room', 'land', 'commercial', 'garage');
