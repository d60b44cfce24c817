alter table saved_search_hits
  -- Whether the search has been changed since it found this, which is told once the search as it is finds it too.
  add column if not exists search_changed boolean not null default false;
