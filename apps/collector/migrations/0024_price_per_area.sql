-- What a square metre costs follows from the price and the area in a listing's row, and is worked out of them where it is
-- shown: it is not kept beside them any more.
delete from listing_enrichments where kind = 'price_per_m2';
