-- What a file is, by its content. Null for files that were stored before it was looked at.

alter table session_files add column if not exists media_type text;
