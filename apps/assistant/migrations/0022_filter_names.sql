-- Filters of saved searches under the names that the collector takes (Contract 4, Search).
update saved_searches
set search = search - 'price_fell_since' - 'bounding_box' || jsonb_strip_nulls(jsonb_build_object(
  'price_dropped_since', search -> 'price_fell_since',
  'bbox', case when search ? 'bounding_box' then jsonb_build_array(
    search #> '{bounding_box,west}', search #> '{bounding_box,south}',
    search #> '{bounding_box,east}', search #> '{bounding_box,north}') end))
where search ?| '{price_fell_since,bounding_box}';
