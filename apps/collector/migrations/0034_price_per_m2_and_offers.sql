-- The price of a square metre as the source or the text gives it, and the number of offers in a text with several.
alter table property_listings
  add column price_per_m2 numeric(16, 2),
  add column offers integer;
