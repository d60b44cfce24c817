-- Why the model would not describe a picture: code and message, the model and the prompt that it was asked with,
-- and when. Null where nobody has asked, and once it is described.
alter table images add column describe_error jsonb;
