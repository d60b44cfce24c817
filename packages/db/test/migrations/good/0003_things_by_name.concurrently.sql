create index concurrently if not exists things_by_name on things (name);
