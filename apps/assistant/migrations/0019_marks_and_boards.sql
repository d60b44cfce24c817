-- Marks of users on listings, and boards: shortlists that users share. Listings are in the collector's database.

create table listing_marks (
  user_id text not null,
  listing_id bigint not null,
  status text,
  rating integer check (rating between 1 and 5),
  note text,
  tags text[] not null default '{}',
  hidden boolean not null default false,
  seen boolean not null default false,
  follow_up_on date,
  created_at timestamptz not null default now(),
  updated_at timestamptz not null default now(),
  primary key (user_id, listing_id)
);

create table boards (
  id text primary key default gen_random_uuid()::text,
  name text not null,
  created_at timestamptz not null default now(),
  updated_at timestamptz not null default now()
);

create table board_members (
  board_id text not null references boards (id) on delete cascade,
  user_id text not null,
  role text not null check (role in ('owner', 'editor', 'viewer')),
  added_at timestamptz not null default now(),
  primary key (board_id, user_id)
);

create index board_members_user on board_members (user_id);
create unique index board_members_owner on board_members (board_id) where role = 'owner';

create table board_items (
  board_id text not null references boards (id) on delete cascade,
  listing_id bigint not null,
  -- Items are in ascending order of their positions. Gaps are allowed.
  position integer not null,
  status text,
  note text,
  added_at timestamptz not null default now(),
  primary key (board_id, listing_id)
);

create table board_verdicts (
  board_id text not null,
  listing_id bigint not null,
  user_id text not null,
  verdict text not null check (verdict in ('yes', 'maybe', 'no')),
  decided_at timestamptz not null default now(),
  primary key (board_id, listing_id, user_id),
  foreign key (board_id, listing_id) references board_items (board_id, listing_id) on delete cascade,
  foreign key (board_id, user_id) references board_members (board_id, user_id) on delete cascade
);

create index board_verdicts_member on board_verdicts (board_id, user_id);

create table board_comments (
  id text primary key default gen_random_uuid()::text,
  board_id text not null,
  listing_id bigint not null,
  user_id text not null,
  text text not null,
  created_at timestamptz not null default clock_timestamp(),
  foreign key (board_id, listing_id) references board_items (board_id, listing_id) on delete cascade
);

create index board_comments_item on board_comments (board_id, listing_id, created_at);
create index board_comments_user on board_comments (user_id);
