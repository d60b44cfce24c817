-- Settings of users, each with the default of a user without a row.

create table user_settings (
  user_id text primary key,
  -- Null if the browser decides.
  language text check (language in ('uk', 'ru', 'en')),
  theme text not null default 'auto' check (theme in ('light', 'dark', 'auto')),
  single_letter_keys boolean not null default true,
  -- Null if prices are shown in their own currency.
  currency text,
  updated_at timestamptz not null default now()
);
