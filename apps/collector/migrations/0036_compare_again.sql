-- Older listings are compared again, as if they had just changed, because streets and prices are compared otherwise now.
insert into duplicate_marks (listing_id)
  select id from property_listings where archived_at is null order by id;
