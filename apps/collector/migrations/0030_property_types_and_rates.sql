-- Property types are a closed vocabulary from now on. This column keeps the word of the source where it differs. Upkeep
-- resolves the words that are stored already (src/listing/stored-types.ts).
alter table property_listings add column property_type_text text;

-- Hryvnias for one unit of a currency. A rate from a file is preferred to one of the set that is loaded at the start.
create table currency_rates (
  currency text not null,
  day date not null,
  rate numeric(20, 10) not null check (rate > 0),
  source text not null check (source in ('starting_set', 'file')),
  primary key (currency, day)
);
