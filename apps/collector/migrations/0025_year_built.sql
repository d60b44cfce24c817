alter table property_listings add column year_built integer;
