-- A broad word in one city: without it the words of every listing of the country are looked through
-- (280 ms instead of 4 ms for one city of 300 among 60,000 listings).
create index property_listings_city on property_listings (city_key, deal_type, price)
  where archived_at is null;
