-- This index is built once, however often the next one fails.
create index concurrently if not exists rows_by_name on rows_of_names (name);
create unique index concurrently if not exists rows_by_unique_name on rows_of_names (name);
analyze rows_of_names;
