alter table things add column note text;
insert into things (name) values ('second');
