create extension if not exists vector;

-- Where payloads come from. A source comes into being with its first payload.
create table sources (
  slug text primary key,
  created_at timestamptz not null default now()
);

create table property_listings (
  id bigint generated always as identity primary key,
  source_slug text not null references sources (slug),
  external_id text not null,
  url text,
  title text,
  description text not null,
  summary text,
  language text,
  deal_type text,
  property_type text,
  price numeric(16, 2),
  currency text,
  city text,
  -- The city as the search normaliser writes it, so that a filter finds every spelling of it.
  city_key text,
  district text,
  address text,
  rooms integer,
  area_total numeric(12, 2),
  area_living numeric(12, 2),
  area_kitchen numeric(12, 2),
  floor integer,
  floors_total integer,
  latitude double precision,
  longitude double precision,
  contact_name text,
  phones text[] not null default '{}',
  features text[] not null default '{}',
  attributes jsonb not null default '{}',
  published_at timestamptz,
  -- From which payload this state was made; an older payload never overwrites a newer one.
  raw_id bigint not null,
  -- Content hash of the payload that last went through every stage; null while one is on its way.
  completed_hash text,
  -- The words of the listing as the search normaliser writes them.
  search_text text not null,
  search_vector tsvector generated always as (to_tsvector('simple', search_text)) stored,
  embedding vector({{embedding_dimensions}}),
  embedding_model text,
  -- SHA-256 of the text that the embedding was made from: it is made again only when that changed.
  embedding_text_hash text,
  archived_at timestamptz,
  created_at timestamptz not null default now(),
  updated_at timestamptz not null default now(),
  unique (source_slug, external_id)
);

create index property_listings_search on property_listings using gin (search_vector);
create index property_listings_embedding on property_listings using hnsw (embedding vector_cosine_ops);

-- What a listing was at each change, with what changed: the price history among others.
create table listing_snapshots (
  id bigint generated always as identity primary key,
  listing_id bigint not null references property_listings (id) on delete cascade,
  raw_id bigint not null,
  listing jsonb not null,
  changes jsonb not null,
  created_at timestamptz not null default now(),
  unique (listing_id, raw_id)
);

-- One row for equal bytes; the bytes are in the image store under the same name.
create table images (
  sha256 text primary key check (sha256 ~ '^[0-9a-f]{64}$'),
  media_type text not null,
  width integer not null,
  height integer not null,
  bytes bigint not null,
  description text,
  room_type text,
  quality text,
  described_by text,
  created_at timestamptz not null default now()
);

-- The pictures of a listing in their order; a bad one is kept with its reason.
create table listing_images (
  id bigint generated always as identity primary key,
  listing_id bigint not null references property_listings (id) on delete cascade,
  position integer not null,
  url text,
  sha256 text references images (sha256),
  error text,
  created_at timestamptz not null default now(),
  unique (listing_id, position)
);

create index listing_images_sha256 on listing_images (sha256);

-- What was worked out about a listing beside its own fields, one row a kind.
create table listing_enrichments (
  listing_id bigint not null references property_listings (id) on delete cascade,
  kind text not null,
  value jsonb not null,
  updated_at timestamptz not null default now(),
  primary key (listing_id, kind)
);
