create table rows_of_names (name text not null);
insert into rows_of_names values ('one'), ('one');
