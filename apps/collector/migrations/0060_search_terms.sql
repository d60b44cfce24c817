-- Groups of three letters of a word, with its beginning and end. Mistyped words share most of them. Extensions for this
-- are missing on some managed servers.
create function term_trigrams(term text) returns text[] language sql immutable parallel safe as $$
  select array_agg(distinct substr('  ' || term || ' ', position, 3))
  from generate_series(1, length(term) + 1) as position
$$;

-- Terms of the newest listings, for words of queries that no listing has, and the weights of words (src/search/vocabulary.ts).
create table search_terms (
  term text collate "C" primary key,
  -- Number of these listings with the term. The row with an empty term has the number of all of them.
  listings integer not null,
  trigrams text[] generated always as (
    case when term ~ '^[a-z]{3,40}$' then term_trigrams(term) end) stored
);
create index search_terms_trigrams on search_terms using gin (trigrams);
