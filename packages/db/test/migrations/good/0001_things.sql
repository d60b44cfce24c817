create extension if not exists vector;
create table things (
  id bigint generated always as identity primary key,
  name text not null,
  price numeric(14, 2),
  embedding vector({{dimensions}})
);
insert into things (name, price) values ('first', 12.50);
