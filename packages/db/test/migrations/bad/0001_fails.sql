create table half (id int);
select * from no_such_table;
