-- Words of a text for the search in conversations. All spellings of an apostrophe split words; ё is е. The length is
-- limited, because the words of a text may take at most 1 MiB.
create function text_words(content text) returns tsvector language sql immutable as $$
  select to_tsvector('pg_catalog.simple', translate(left(content, 100000), 'ʼ’ёЁ', '''''еЕ'))
$$;
