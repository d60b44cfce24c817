alter table things add column other text;
