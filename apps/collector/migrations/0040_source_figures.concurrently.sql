-- Counts the listings of a source, and finds the source of a listing's images, without reading the listings.
create index concurrently if not exists property_listings_of_source
  on property_listings (source_slug, id) include (archived_at);
