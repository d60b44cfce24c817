-- All migrations together. Made by `npm run generate`; the migrations are what runs.

create table agent_steps (
  id text not null default (gen_random_uuid())::text,
  session_id text not null,
  turn_id text not null,
  kind text not null,
  title text not null,
  status text not null,
  detail text,
  started_at timestamp with time zone not null default now(),
  finished_at timestamp with time zone,
  position bigint not null generated always as identity,
  changes jsonb,
  undone_at timestamp with time zone,
  FOREIGN KEY (session_id) REFERENCES conversation_sessions(id) ON DELETE CASCADE,
  PRIMARY KEY (id)
);
CREATE INDEX agent_steps_session ON public.agent_steps USING btree (session_id, "position");

create table api_keys (
  id text not null,
  name text not null,
  key_hash text not null,
  scopes text[] not null,
  source_slugs text[],
  created_at timestamp with time zone not null default now(),
  last_used_at timestamp with time zone,
  revoked_at timestamp with time zone,
  PRIMARY KEY (id),
  UNIQUE (key_hash)
);

create table assistant_rate_limits (
  key character varying(255) not null,
  points integer not null default 0,
  expire bigint,
  PRIMARY KEY (key)
);

create table audit_log (
  id bigint not null generated always as identity,
  created_at timestamp with time zone not null default now(),
  action text not null,
  actor_id text,
  user_id text,
  details jsonb not null default '{}'::jsonb,
  PRIMARY KEY (id)
);
CREATE INDEX audit_log_created_at ON public.audit_log USING btree (created_at);
CREATE INDEX audit_log_user_id ON public.audit_log USING btree (user_id, id);

create table board_comments (
  id text not null default (gen_random_uuid())::text,
  board_id text not null,
  listing_id bigint not null,
  user_id text not null,
  text text not null,
  created_at timestamp with time zone not null default clock_timestamp(),
  FOREIGN KEY (board_id, listing_id) REFERENCES board_items(board_id, listing_id) ON DELETE CASCADE,
  PRIMARY KEY (id)
);
CREATE INDEX board_comments_item ON public.board_comments USING btree (board_id, listing_id, created_at);
CREATE INDEX board_comments_user ON public.board_comments USING btree (user_id);

create table board_items (
  board_id text not null,
  listing_id bigint not null,
  position integer not null,
  status text,
  note text,
  added_at timestamp with time zone not null default now(),
  FOREIGN KEY (board_id) REFERENCES boards(id) ON DELETE CASCADE,
  PRIMARY KEY (board_id, listing_id)
);

create table board_members (
  board_id text not null,
  user_id text not null,
  role text not null,
  added_at timestamp with time zone not null default now(),
  CHECK ((role = ANY (ARRAY['owner'::text, 'editor'::text, 'viewer'::text]))),
  FOREIGN KEY (board_id) REFERENCES boards(id) ON DELETE CASCADE,
  PRIMARY KEY (board_id, user_id)
);
CREATE UNIQUE INDEX board_members_owner ON public.board_members USING btree (board_id) WHERE (role = 'owner'::text);
CREATE INDEX board_members_user ON public.board_members USING btree (user_id);

create table board_verdicts (
  board_id text not null,
  listing_id bigint not null,
  user_id text not null,
  verdict text not null,
  decided_at timestamp with time zone not null default now(),
  CHECK ((verdict = ANY (ARRAY['yes'::text, 'maybe'::text, 'no'::text]))),
  FOREIGN KEY (board_id, listing_id) REFERENCES board_items(board_id, listing_id) ON DELETE CASCADE,
  FOREIGN KEY (board_id, user_id) REFERENCES board_members(board_id, user_id) ON DELETE CASCADE,
  PRIMARY KEY (board_id, listing_id, user_id)
);
CREATE INDEX board_verdicts_member ON public.board_verdicts USING btree (board_id, user_id);

create table boards (
  id text not null default (gen_random_uuid())::text,
  name text not null,
  created_at timestamp with time zone not null default now(),
  updated_at timestamp with time zone not null default now(),
  PRIMARY KEY (id)
);

create table chat_turn_events (
  turn_id text not null,
  last_seq integer not null,
  events jsonb not null,
  FOREIGN KEY (turn_id) REFERENCES chat_turns(id) ON DELETE CASCADE,
  PRIMARY KEY (turn_id, last_seq)
);

create table chat_turns (
  id text not null default (gen_random_uuid())::text,
  session_id text not null,
  user_id text not null,
  question_id text,
  status text not null default 'running'::text,
  lease_until timestamp with time zone not null,
  cancel_requested boolean not null default false,
  started_at timestamp with time zone not null default now(),
  finished_at timestamp with time zone,
  position bigint not null generated always as identity,
  CHECK ((status = ANY (ARRAY['running'::text, 'completed'::text, 'cancelled'::text, 'failed'::text, 'cut'::text]))),
  FOREIGN KEY (session_id) REFERENCES conversation_sessions(id) ON DELETE CASCADE,
  PRIMARY KEY (id)
);
CREATE INDEX chat_turns_finished ON public.chat_turns USING btree (finished_at) WHERE (finished_at IS NOT NULL);
CREATE INDEX chat_turns_lease ON public.chat_turns USING btree (lease_until) WHERE (status = 'running'::text);
CREATE UNIQUE INDEX chat_turns_running ON public.chat_turns USING btree (session_id) WHERE (status = 'running'::text);
CREATE INDEX chat_turns_session ON public.chat_turns USING btree (session_id, "position" DESC);

create table collector_feed (
  id boolean not null default true,
  cursor text,
  holder text,
  lease_until timestamp with time zone,
  caught_up_at timestamp with time zone not null default now(),
  CHECK (id),
  PRIMARY KEY (id)
);

create table conversation_messages (
  id text not null default (gen_random_uuid())::text,
  session_id text not null,
  role text not null,
  content text,
  created_at timestamp with time zone default now(),
  tool_calls jsonb,
  position bigint not null generated always as identity,
  turn_id text,
  status text,
  problem jsonb,
  client_message_id text,
  kept text,
  unasked boolean not null default false,
  FOREIGN KEY (session_id) REFERENCES conversation_sessions(id) ON DELETE CASCADE,
  PRIMARY KEY (id)
);
CREATE UNIQUE INDEX conversation_messages_client ON public.conversation_messages USING btree (session_id, client_message_id) WHERE (client_message_id IS NOT NULL);
CREATE INDEX conversation_messages_session ON public.conversation_messages USING btree (session_id, COALESCE(created_at, '-infinity'::timestamp with time zone), "position");
CREATE INDEX conversation_messages_turn ON public.conversation_messages USING btree (turn_id) WHERE (turn_id IS NOT NULL);
CREATE INDEX conversation_messages_words ON public.conversation_messages USING gin (text_words(content));

create table conversation_sessions (
  id text not null default (gen_random_uuid())::text,
  user_id text,
  profile_id text,
  name text,
  pinned boolean default false,
  created_at timestamp with time zone default now(),
  last_active timestamp with time zone default now(),
  read_at timestamp with time zone,
  PRIMARY KEY (id)
);
CREATE INDEX conversation_sessions_last_active ON public.conversation_sessions USING btree (COALESCE(last_active, created_at, '-infinity'::timestamp with time zone) DESC, id DESC);
CREATE INDEX conversation_sessions_owner ON public.conversation_sessions USING btree (user_id, COALESCE(last_active, created_at, '-infinity'::timestamp with time zone) DESC, id DESC);

create table conversation_summaries (
  session_id text not null,
  summary text not null,
  through_sent_us bigint,
  through_position bigint not null,
  revision integer not null,
  updated_at timestamp with time zone not null default now(),
  FOREIGN KEY (session_id) REFERENCES conversation_sessions(id) ON DELETE CASCADE,
  PRIMARY KEY (session_id)
);

create table currency_rates (
  currency text not null,
  day date not null,
  rate numeric(20,10) not null,
  source text not null,
  CHECK ((rate > (0)::numeric)),
  CHECK ((source = ANY (ARRAY['starting_set'::text, 'file'::text]))),
  PRIMARY KEY (currency, day)
);

create table duplicate_marks (
  id bigint not null generated always as identity,
  listing_id bigint not null,
  marked_at timestamp with time zone not null default now(),
  claimed_until timestamp with time zone,
  attempts integer not null default 0,
  PRIMARY KEY (id)
);

create table duplicate_pairs (
  low_id bigint not null,
  high_id bigint not null,
  score real not null,
  reasons jsonb not null,
  updated_at timestamp with time zone not null default now(),
  CHECK ((low_id < high_id)),
  FOREIGN KEY (high_id) REFERENCES property_listings(id) ON DELETE CASCADE,
  FOREIGN KEY (low_id) REFERENCES property_listings(id) ON DELETE CASCADE,
  PRIMARY KEY (low_id, high_id)
);
CREATE INDEX duplicate_pairs_high ON public.duplicate_pairs USING btree (high_id, low_id);

create table duplicate_verdicts (
  low_id bigint not null,
  high_id bigint not null,
  verdict text not null,
  decided_by text,
  decided_at timestamp with time zone not null default now(),
  CHECK ((low_id < high_id)),
  CHECK ((verdict = ANY (ARRAY['same'::text, 'different'::text]))),
  FOREIGN KEY (high_id) REFERENCES property_listings(id) ON DELETE CASCADE,
  FOREIGN KEY (low_id) REFERENCES property_listings(id) ON DELETE CASCADE,
  PRIMARY KEY (low_id, high_id)
);
CREATE INDEX duplicate_verdicts_high ON public.duplicate_verdicts USING btree (high_id, low_id);

create table images (
  sha256 text not null,
  media_type text not null,
  width integer not null,
  height integer not null,
  bytes bigint not null,
  description text,
  room_type text,
  quality text,
  described_by text,
  created_at timestamp with time zone not null default now(),
  fingerprint bigint,
  prompt_version text,
  describe_error jsonb,
  requested_model text,
  CHECK ((sha256 ~ '^[0-9a-f]{64}$'::text)),
  PRIMARY KEY (sha256)
);
CREATE INDEX images_fingerprint ON public.images USING gin (fingerprint_parts(fingerprint)) WITH (fastupdate=off) WHERE (fingerprint <> 0);
CREATE INDEX images_without_fingerprint ON public.images USING btree (sha256) WHERE (fingerprint IS NULL);

create table invalidations (
  id bigint not null generated always as identity,
  user_id text,
  kind text not null,
  created_at timestamp with time zone not null default now(),
  provider_session_id text,
  CHECK ((kind = ANY (ARRAY['sessions'::text, 'access'::text]))),
  PRIMARY KEY (id)
);

create table listing_changes (
  id bigint not null generated always as identity,
  position bigint,
  listing_id bigint not null,
  source_slug text not null,
  kind text not null,
  price_from numeric(16,2),
  price_to numeric(16,2),
  currency_from text,
  currency_to text,
  created_at timestamp with time zone not null default now(),
  CHECK ((kind = ANY (ARRAY['new'::text, 'price_changed'::text, 'returned'::text]))),
  PRIMARY KEY (id)
);
CREATE UNIQUE INDEX listing_changes_read ON public.listing_changes USING btree ("position") WHERE ("position" IS NOT NULL);
CREATE INDEX listing_changes_waiting ON public.listing_changes USING btree (id) WHERE ("position" IS NULL);

create table listing_checks (
  listing_id bigint not null,
  checked_at timestamp with time zone,
  status integer,
  gone_since timestamp with time zone,
  gone_raw_id bigint,
  claimed_until timestamp with time zone,
  FOREIGN KEY (listing_id) REFERENCES property_listings(id) ON DELETE CASCADE,
  PRIMARY KEY (listing_id)
);
CREATE INDEX listing_checks_oldest ON public.listing_checks USING btree (checked_at NULLS FIRST);

create table listing_enrichments (
  listing_id bigint not null,
  kind text not null,
  value jsonb not null,
  updated_at timestamp with time zone not null default now(),
  FOREIGN KEY (listing_id) REFERENCES property_listings(id) ON DELETE CASCADE,
  PRIMARY KEY (listing_id, kind)
);

create table listing_facts (
  id bigint not null,
  is_live boolean,
  source_slug text,
  deal_type text,
  property_type text,
  place_path integer[],
  city_key text,
  district_key text,
  price numeric(16,2),
  currency text,
  price_per_m2 numeric,
  price_before numeric(16,2),
  price_changed_at timestamp with time zone,
  area_total numeric(12,2),
  rooms integer,
  floor integer,
  floors_total integer,
  features text[],
  image_count integer,
  latitude double precision,
  longitude double precision,
  duplicate_group bigint,
  created_at timestamp with time zone,
  PRIMARY KEY (id)
);
CREATE INDEX listing_facts_area ON public.listing_facts USING btree (area_total, id) WHERE is_live;
CREATE INDEX listing_facts_duplicates ON public.listing_facts USING btree (duplicate_group) WHERE (duplicate_group IS NOT NULL);
CREATE INDEX listing_facts_position ON public.listing_facts USING btree (latitude, longitude) WHERE is_live;
CREATE INDEX listing_facts_price ON public.listing_facts USING btree (currency, deal_type, price, id) WHERE is_live;
CREATE INDEX listing_facts_price_fell ON public.listing_facts USING btree (price_changed_at) WHERE (price < price_before);
CREATE INDEX listing_facts_price_per_m2 ON public.listing_facts USING btree (currency, deal_type, price_per_m2, id) WHERE is_live;
CREATE INDEX listing_facts_seen ON public.listing_facts USING btree (created_at) WHERE is_live;
CREATE INDEX listing_facts_terms ON public.listing_facts USING gin (listing_index_terms(id, is_live, deal_type, city_key, district_key, property_type, source_slug, price, area_total, rooms, place_path)) WITH (fastupdate=off);

create table listing_images (
  id bigint not null generated always as identity,
  listing_id bigint not null,
  position integer not null,
  url text,
  sha256 text,
  error text,
  created_at timestamp with time zone not null default now(),
  retry_at timestamp with time zone,
  turn_raw_id bigint,
  FOREIGN KEY (listing_id) REFERENCES property_listings(id) ON DELETE CASCADE,
  FOREIGN KEY (sha256) REFERENCES images(sha256),
  PRIMARY KEY (id),
  UNIQUE (listing_id, "position")
);
CREATE INDEX listing_images_sha256 ON public.listing_images USING btree (sha256);

create table listing_index (
  id bigint not null,
  is_live boolean not null,
  source_slug text not null,
  deal_type text,
  property_type text,
  place_path integer[],
  city_key text,
  district_key text,
  price numeric(16,2),
  currency text,
  price_per_m2 numeric,
  price_before numeric(16,2),
  price_changed_at timestamp with time zone,
  area_total numeric(12,2),
  rooms integer,
  floor integer,
  floors_total integer,
  features text[] not null,
  image_count integer not null default 0,
  latitude double precision,
  longitude double precision,
  duplicate_group bigint,
  created_at timestamp with time zone not null,
  words tsvector not null,
  stems tsvector,
  stems_version integer not null default 0,
  PRIMARY KEY (id)
);
CREATE INDEX listing_index_search ON public.listing_index USING gin (words, stems, listing_index_terms(id, is_live, deal_type, city_key, district_key, property_type, source_slug, price, area_total, rooms, place_path)) WITH (fastupdate=off);
CREATE INDEX listing_index_stems_version ON public.listing_index USING btree (stems_version);

create table listing_marks (
  user_id text not null,
  listing_id bigint not null,
  status text,
  rating integer,
  note text,
  tags text[] not null default '{}'::text[],
  hidden boolean not null default false,
  seen boolean not null default false,
  follow_up_on date,
  created_at timestamp with time zone not null default now(),
  updated_at timestamp with time zone not null default now(),
  CHECK (((rating >= 1) AND (rating <= 5))),
  PRIMARY KEY (user_id, listing_id)
);

create table listing_payloads (
  source_slug text not null,
  external_id text not null,
  raw_id bigint not null,
  completed_hash text,
  corrections jsonb,
  FOREIGN KEY (source_slug, external_id) REFERENCES property_listings(source_slug, external_id) ON DELETE CASCADE,
  PRIMARY KEY (source_slug, external_id)
);

create table listing_snapshots (
  id bigint not null generated always as identity,
  listing_id bigint not null,
  raw_id bigint not null,
  listing jsonb not null,
  changes jsonb not null,
  created_at timestamp with time zone not null default now(),
  model text,
  prompt_version text,
  revision integer not null default 0,
  title_by text,
  corrected_by jsonb,
  FOREIGN KEY (listing_id) REFERENCES property_listings(id) ON DELETE CASCADE,
  PRIMARY KEY (id),
  UNIQUE (listing_id, raw_id, revision)
);

create table memory_facts (
  id text not null default (gen_random_uuid())::text,
  category text,
  key text not null,
  value text,
  user_id text,
  source_session_id text,
  created_at timestamp with time zone default now(),
  updated_at timestamp with time zone default now(),
  PRIMARY KEY (id)
);
CREATE UNIQUE INDEX memory_facts_identity ON public.memory_facts USING btree (user_id, category, key);
CREATE INDEX memory_facts_written ON public.memory_facts USING btree (COALESCE(updated_at, created_at, '-infinity'::timestamp with time zone) DESC, id DESC);

create table memory_summaries (
  id text not null default (gen_random_uuid())::text,
  summary text,
  user_id text,
  updated_at timestamp with time zone default now(),
  PRIMARY KEY (id)
);
CREATE UNIQUE INDEX memory_summaries_owner ON public.memory_summaries USING btree (user_id);
CREATE INDEX memory_summaries_updated ON public.memory_summaries USING btree (COALESCE(updated_at, '-infinity'::timestamp with time zone) DESC, id DESC);

create table pending_logins (
  state text not null,
  code_verifier text not null,
  platform text,
  browser_id text,
  earlier_session_id text,
  expires_at timestamp with time zone not null,
  terminal jsonb,
  PRIMARY KEY (state)
);
CREATE INDEX pending_logins_browser_id ON public.pending_logins USING btree (browser_id);
CREATE INDEX pending_logins_expires_at ON public.pending_logins USING btree (expires_at);

create table property_listings (
  id bigint not null generated always as identity,
  source_slug text not null,
  external_id text not null,
  url text,
  title text,
  description text not null,
  summary text,
  language text,
  deal_type text,
  property_type text,
  price numeric(16,2),
  currency text,
  city text,
  city_key text,
  district text,
  address text,
  rooms integer,
  area_total numeric(12,2),
  area_living numeric(12,2),
  area_kitchen numeric(12,2),
  floor integer,
  floors_total integer,
  latitude double precision,
  longitude double precision,
  contact_name text,
  phones text[] not null default '{}'::text[],
  features text[] not null default '{}'::text[],
  attributes jsonb not null default '{}'::jsonb,
  published_at timestamp with time zone,
  search_text text not null,
  search_vector tsvector generated always as (to_tsvector('simple'::regconfig, search_text)) stored,
  embedding vector(384),
  embedding_model text,
  embedding_text_hash text,
  archived_at timestamp with time zone,
  created_at timestamp with time zone not null default now(),
  updated_at timestamp with time zone not null default now(),
  duplicate_group bigint,
  year_built integer,
  place_id integer,
  place_path integer[],
  place_text text,
  place_status text,
  district_key text,
  property_type_text text,
  price_per_m2 numeric(16,2),
  offers integer,
  FOREIGN KEY (source_slug) REFERENCES sources(slug),
  PRIMARY KEY (id),
  UNIQUE (source_slug, external_id)
);
CREATE INDEX property_listings_alike ON public.property_listings USING btree (city_key, deal_type, rooms, area_total, floor, price) WHERE (archived_at IS NULL);
CREATE INDEX property_listings_city ON public.property_listings USING btree (city_key, deal_type, price) WHERE (archived_at IS NULL);
CREATE INDEX property_listings_duplicate_group ON public.property_listings USING btree (duplicate_group) WHERE (duplicate_group IS NOT NULL);
CREATE INDEX property_listings_nearest_halves ON public.property_listings USING hnsw (((embedding)::halfvec(384)) halfvec_cosine_ops) WITH (ef_construction='128');
CREATE INDEX property_listings_of_source ON public.property_listings USING btree (source_slug, id) INCLUDE (archived_at);
CREATE INDEX property_listings_search_vector ON public.property_listings USING gin (search_vector);
CREATE INDEX property_listings_unplaced ON public.property_listings USING btree (id) WHERE (place_status IS NULL);
CREATE INDEX property_listings_unresolved_types ON public.property_listings USING btree (id) WHERE (property_type <> ALL (ARRAY['apartment'::text, 'house'::text, 'room'::text, 'land'::text, 'commercial'::text, 'garage'::text]));

create table rate_limits (
  key character varying(255) not null,
  points integer not null default 0,
  expire bigint,
  PRIMARY KEY (key)
);

create table raw_data (
  id bigint not null generated always as identity,
  source_slug text not null,
  external_id text not null,
  payload jsonb not null,
  content_hash text not null,
  status text not null default 'pending'::text,
  attempt integer not null default 0,
  attempts integer not null default 0,
  claimed_by text,
  lease_expires_at timestamp with time zone,
  error jsonb,
  stages jsonb not null default '[]'::jsonb,
  listing_id bigint,
  idempotency_key text,
  created_at timestamp with time zone not null default now(),
  updated_at timestamp with time zone not null default now(),
  waits boolean not null default false,
  inline boolean not null default false,
  uploads jsonb,
  model_usage jsonb,
  request_id text,
  revision integer not null default 0,
  attempt_usage jsonb,
  queued_at timestamp with time zone,
  retry_at timestamp with time zone,
  CHECK ((status = ANY (ARRAY['pending'::text, 'processing'::text, 'completed'::text, 'invalid'::text, 'failed'::text]))),
  FOREIGN KEY (listing_id) REFERENCES property_listings(id) ON DELETE SET NULL,
  FOREIGN KEY (source_slug) REFERENCES sources(slug),
  PRIMARY KEY (id)
);
CREATE INDEX raw_data_claimable ON public.raw_data USING btree (source_slug, ((id + 0))) WHERE ((status = 'pending'::text) AND (NOT waits));
CREATE INDEX raw_data_ended ON public.raw_data USING btree (status, updated_at, id) WHERE (status = ANY (ARRAY['completed'::text, 'invalid'::text, 'failed'::text]));
CREATE INDEX raw_data_ended_of_source ON public.raw_data USING btree (source_slug, status, updated_at, id) WHERE (status = ANY (ARRAY['completed'::text, 'invalid'::text, 'failed'::text]));
CREATE UNIQUE INDEX raw_data_idempotency ON public.raw_data USING btree (source_slug, idempotency_key) WHERE (idempotency_key IS NOT NULL);
CREATE INDEX raw_data_in_progress ON public.raw_data USING btree (source_slug, lease_expires_at) WHERE (status = 'processing'::text);
CREATE INDEX raw_data_listing ON public.raw_data USING btree (listing_id) WHERE (listing_id IS NOT NULL);
CREATE INDEX raw_data_unfinished ON public.raw_data USING btree (source_slug, external_id, status, ((id + 0))) WHERE (status = ANY (ARRAY['pending'::text, 'processing'::text]));
CREATE INDEX raw_data_waiting ON public.raw_data USING btree (source_slug, external_id) WHERE ((status = 'pending'::text) AND waits);

create table raw_readings (
  raw_id bigint not null,
  revision integer not null,
  extraction json not null,
  model text not null,
  requested_model text not null,
  prompt_version text not null,
  FOREIGN KEY (raw_id) REFERENCES raw_data(id) ON DELETE CASCADE,
  PRIMARY KEY (raw_id)
);

create table saved_search_hits (
  search_id text not null,
  listing_id bigint not null,
  kind text not null,
  old_price double precision,
  listing jsonb,
  found_at timestamp with time zone not null default now(),
  told_at timestamp with time zone,
  search_changed boolean not null default false,
  CHECK ((kind = ANY (ARRAY['new'::text, 'cheaper'::text]))),
  FOREIGN KEY (search_id) REFERENCES saved_searches(id) ON DELETE CASCADE,
  PRIMARY KEY (search_id, listing_id)
);
CREATE INDEX saved_search_hits_waiting ON public.saved_search_hits USING btree (search_id, found_at) WHERE (told_at IS NULL);

create table saved_searches (
  id text not null default (gen_random_uuid())::text,
  user_id text not null,
  session_id text,
  name text not null,
  search jsonb not null,
  every_minutes integer not null,
  paused boolean not null default false,
  created_at timestamp with time zone not null default now(),
  updated_at timestamp with time zone not null default now(),
  told_at timestamp with time zone,
  FOREIGN KEY (session_id) REFERENCES conversation_sessions(id) ON DELETE SET NULL,
  PRIMARY KEY (id)
);
CREATE INDEX saved_searches_owner ON public.saved_searches USING btree (user_id);
CREATE INDEX saved_searches_session ON public.saved_searches USING btree (session_id) WHERE (session_id IS NOT NULL);

create table schema_migrations (
  component text not null,
  name text not null,
  checksum text not null,
  applied_at timestamp with time zone not null default now(),
  PRIMARY KEY (component, name)
);

create table search_terms (
  term text not null,
  listings integer not null,
  trigrams text[] generated always as (
CASE
    WHEN (term ~ '^[a-z]{3,40}$'::text) THEN term_trigrams(term)
    ELSE NULL::text[]
END) stored,
  PRIMARY KEY (term)
);
CREATE INDEX search_terms_trigrams ON public.search_terms USING gin (trigrams);

create table session_files (
  session_id text not null,
  name text not null,
  size_bytes integer not null,
  sha256 text not null,
  content bytea not null,
  created_at timestamp with time zone not null default now(),
  updated_at timestamp with time zone not null default now(),
  media_type text,
  FOREIGN KEY (session_id) REFERENCES conversation_sessions(id) ON DELETE CASCADE,
  PRIMARY KEY (session_id, name)
);

create table sources (
  slug text not null,
  created_at timestamp with time zone not null default now(),
  PRIMARY KEY (slug)
);

create table svc_users (
  id text not null,
  email text not null,
  display_name text,
  role text not null default 'user'::text,
  permissions text not null default '[]'::text,
  created_at timestamp with time zone not null default now(),
  updated_at timestamp with time zone not null default now(),
  access_generation bigint not null default 0,
  CHECK ((role = ANY (ARRAY['user'::text, 'admin'::text]))),
  PRIMARY KEY (id)
);

create table terminal_sign_ins (
  id text not null,
  auth_session_id text not null,
  browser_id text not null,
  port integer not null,
  state text not null,
  code_challenge text not null,
  code_sha256 text,
  expires_at timestamp with time zone not null,
  FOREIGN KEY (auth_session_id) REFERENCES user_auth_sessions(id) ON DELETE CASCADE,
  PRIMARY KEY (id),
  UNIQUE (auth_session_id),
  UNIQUE (code_sha256)
);
CREATE INDEX terminal_sign_ins_expires_at ON public.terminal_sign_ins USING btree (expires_at);

create table token_revocations (
  id bigint not null generated always as identity,
  session_id text not null,
  user_id text not null,
  access_token_enc text not null,
  refresh_token_enc text not null,
  attempts integer not null default 0,
  due_at timestamp with time zone not null default now(),
  PRIMARY KEY (id)
);
CREATE INDEX token_revocations_due_at ON public.token_revocations USING btree (due_at);

create table upkeep_turns (
  name text not null,
  taken_at timestamp with time zone not null default now(),
  done_at timestamp with time zone,
  holder text,
  lease_until timestamp with time zone,
  PRIMARY KEY (name)
);

create table user_auth_sessions (
  id text not null,
  user_id text not null,
  access_token_enc text not null,
  refresh_token_enc text not null,
  expires_at timestamp with time zone,
  created_at timestamp with time zone not null default now(),
  last_used_at timestamp with time zone not null default now(),
  token_version integer not null default 0,
  refresh_lease_until timestamp with time zone,
  user_checked_at timestamp with time zone,
  checked_generation bigint,
  user_agent text,
  address text,
  provider_session_id text,
  id_token_enc text,
  FOREIGN KEY (user_id) REFERENCES svc_users(id) ON DELETE CASCADE,
  PRIMARY KEY (id)
);
CREATE INDEX user_auth_sessions_created_at ON public.user_auth_sessions USING btree (created_at);
CREATE INDEX user_auth_sessions_provider_session_id ON public.user_auth_sessions USING btree (provider_session_id) WHERE (provider_session_id IS NOT NULL);
CREATE INDEX user_auth_sessions_user_id ON public.user_auth_sessions USING btree (user_id);

create table user_settings (
  user_id text not null,
  language text,
  theme text not null default 'auto'::text,
  single_letter_keys boolean not null default true,
  currency text,
  updated_at timestamp with time zone not null default now(),
  CHECK ((language = ANY (ARRAY['uk'::text, 'ru'::text, 'en'::text]))),
  CHECK ((theme = ANY (ARRAY['light'::text, 'dark'::text, 'auto'::text]))),
  PRIMARY KEY (user_id)
);

create table webhook_events (
  id bigint not null generated always as identity,
  received_at timestamp with time zone not null default now(),
  delivery_id text,
  signature text not null,
  event text,
  user_id text,
  outcome text not null,
  sessions_ended integer not null default 0,
  body_sha256 text not null,
  PRIMARY KEY (id),
  UNIQUE (delivery_id)
);
CREATE INDEX webhook_events_received_at ON public.webhook_events USING btree (received_at);
