import type { ColumnType, Generated, JSONColumnType } from 'kysely';
import type { Author, Corrections } from './listing/corrections.ts';
import type { Extraction, FieldName, FieldValues, FIELDS } from './listing/fields.ts';
import type { Static } from 'typebox';
import type { PlaceColumns } from './places/listing-place.ts';
import type {
  modelUsageSchema,
  RAW_STATUSES,
  rawErrorSchema,
  stageSchema,
  uploadOutcomeSchema,
} from './schemas.ts';

type Timestamp = ColumnType<Date, Date | string | undefined, Date | string>;
type NullableTimestamp = ColumnType<
  Date | null,
  Date | string | null | undefined,
  Date | string | null
>;

/** Status of a raw record. Specification 001, Raw data status. */
export type RawStatus = (typeof RAW_STATUSES)[number];

export type StageRecord = Static<typeof stageSchema>;
export type RawError = NonNullable<Static<typeof rawErrorSchema>>;
export type ModelUsage = Static<typeof modelUsageSchema>;
export type UploadOutcome = Static<typeof uploadOutcomeSchema>;

/** Reason why an image could not be described, with the requested model, the prompt version and the time. */
export type DescribeError = {
  code: string;
  message: string;
  requested_model: string;
  prompt_version: string;
  failed_at: string;
};

/** Kind of evidence for or against a duplicate. */
export type ReasonName =
  | 'text'
  | 'place'
  | 'area'
  | 'rooms'
  | 'price'
  | 'pictures'
  | 'seller'
  | 'verdict';

/** Evidence for or against a duplicate, with its part of the score. */
export type Reason = { reason: ReasonName; part: number; detail: string };

type ChangeKind = 'new' | 'price_changed' | 'returned';

type FieldColumns = {
  [Name in FieldName]: (typeof FIELDS)[Name]['kind'] extends 'time'
    ? NullableTimestamp
    : (typeof FIELDS)[Name]['kind'] extends 'json'
      ? JSONColumnType<Record<string, unknown>>
      : FieldValues[Name];
};

/** Tables of the collector. Specification 001, Resources and their fields; Contract 4, Tables. */
export type Tables = {
  sources: { slug: string; created_at: Timestamp };
  property_listings: FieldColumns & {
    id: Generated<number>;
    source_slug: string;
    external_id: string;
    city_key: string | null;
    /** Null in rows from before migration 0028 until the upkeep resolves their places; likewise the place columns. */
    district_key: string | null;
    place_id: PlaceColumns['place_id'];
    place_path: PlaceColumns['place_path'];
    place_text: PlaceColumns['place_text'];
    place_status: PlaceColumns['place_status'] | null;
    search_text: string;
    search_vector: ColumnType<string, never, never>;
    embedding: string | null;
    embedding_model: string | null;
    embedding_text_hash: string | null;
    duplicate_group: number | null;
    archived_at: NullableTimestamp;
    created_at: Timestamp;
    updated_at: Timestamp;
  };
  /** Row of each listing for searches, which triggers maintain (migration 0038). */
  listing_index: Pick<
    FieldColumns,
    | 'deal_type'
    | 'property_type'
    | 'price'
    | 'currency'
    | 'area_total'
    | 'rooms'
    | 'floor'
    | 'floors_total'
    | 'features'
    | 'latitude'
    | 'longitude'
  > & {
    id: number;
    is_live: boolean;
    source_slug: string;
    place_path: PlaceColumns['place_path'];
    city_key: string | null;
    district_key: string | null;
    price_per_m2: number | null;
    price_before: number | null;
    price_changed_at: NullableTimestamp;
    image_count: number;
    duplicate_group: number | null;
    created_at: Timestamp;
    words: string;
    stems: string | null;
    stems_version: number;
  };
  search_terms: {
    term: string;
    listings: number;
    trigrams: ColumnType<string[] | null, never, never>;
  };
  listing_payloads: {
    source_slug: string;
    external_id: string;
    raw_id: number;
    completed_hash: string | null;
    corrections: ColumnType<Corrections | null, string | null | undefined, string | null>;
  };
  listing_snapshots: {
    id: Generated<number>;
    listing_id: number;
    raw_id: number;
    revision: Generated<number>;
    listing: JSONColumnType<Record<string, unknown>>;
    changes: JSONColumnType<Record<string, { from: unknown; to: unknown }>>;
    /** Provider of the title: `source`, `model` or `person`. Null without a title, and before migration 0023. */
    title_by: string | null;
    model: string | null;
    prompt_version: string | null;
    corrected_by: ColumnType<Author | null, string | null | undefined, string | null>;
    created_at: Timestamp;
  };
  images: {
    sha256: string;
    media_type: string;
    width: number;
    height: number;
    bytes: number;
    description: string | null;
    room_type: string | null;
    quality: string | null;
    /** Model name that the server reported. */
    described_by: string | null;
    prompt_version: string | null;
    /** Configured name of the model; null without a description, and before migration 0017. */
    requested_model: string | null;
    describe_error: ColumnType<DescribeError | null, string | null | undefined, string | null>;
    /** 64-bit number, too large for a JavaScript number. */
    fingerprint: ColumnType<never, string | null | undefined, string | null>;
    created_at: Timestamp;
  };
  listing_images: {
    id: Generated<number>;
    listing_id: number;
    position: number;
    url: string | null;
    sha256: string | null;
    error: string | null;
    /** Earliest time of the next download; null if the image is stored, or if only a changed payload retries it. */
    retry_at: NullableTimestamp;
    created_at: Timestamp;
  };
  listing_enrichments: {
    listing_id: number;
    kind: string;
    value: JSONColumnType<Record<string, unknown>>;
    updated_at: Timestamp;
  };
  raw_data: {
    id: Generated<number>;
    source_slug: string;
    external_id: string;
    payload: JSONColumnType<Record<string, unknown>>;
    content_hash: string;
    status: Generated<RawStatus>;
    attempt: Generated<number>;
    attempts: Generated<number>;
    /** Last attempt that reprocessed the payload; 0 if the payload was never reprocessed. */
    revision: Generated<number>;
    claimed_by: string | null;
    lease_expires_at: NullableTimestamp;
    /** Earliest time of the next claim; null if the job can be claimed at once. */
    retry_at: NullableTimestamp;
    error: ColumnType<RawError | null, string | null | undefined, string | null>;
    stages: ColumnType<StageRecord[], string | undefined, string>;
    model_usage: ColumnType<ModelUsage | null, string | null | undefined, string | null>;
    /** Usage of the running attempt at the last renewal of its lease; null before the first renewal. */
    attempt_usage: ColumnType<ModelUsage | null, string | null | undefined, string | null>;
    listing_id: number | null;
    idempotency_key: string | null;
    waits: Generated<boolean>;
    inline: Generated<boolean>;
    request_id: string | null;
    uploads: ColumnType<UploadOutcome[] | null, string | null | undefined, string | null>;
    /** Time of the last retry by an operator or the last reprocessing. */
    queued_at: NullableTimestamp;
    created_at: Timestamp;
    updated_at: Timestamp;
  };
  raw_readings: {
    raw_id: number;
    revision: number;
    extraction: JSONColumnType<Extraction>;
    model: string;
    requested_model: string;
    prompt_version: string;
  };
  listing_checks: {
    listing_id: number;
    checked_at: NullableTimestamp;
    status: number | null;
    gone_since: NullableTimestamp;
    gone_raw_id: number | null;
    claimed_until: NullableTimestamp;
  };
  duplicate_pairs: {
    low_id: number;
    high_id: number;
    score: number;
    reasons: JSONColumnType<Reason[]>;
    updated_at: Timestamp;
  };
  duplicate_verdicts: {
    low_id: number;
    high_id: number;
    verdict: 'same' | 'different';
    decided_by: string | null;
    decided_at: Timestamp;
  };
  duplicate_marks: {
    id: Generated<number>;
    listing_id: number;
    marked_at: Timestamp;
    claimed_until: NullableTimestamp;
    attempts: Generated<number>;
  };
  listing_changes: {
    id: Generated<number>;
    /** Position in the log, which is assigned after the commit. */
    position: number | null;
    listing_id: number;
    source_slug: string;
    kind: ChangeKind;
    price_from: number | null;
    price_to: number | null;
    currency_from: string | null;
    currency_to: string | null;
    created_at: Timestamp;
  };
  currency_rates: { currency: string; day: string; rate: number; source: 'starting_set' | 'file' };
  upkeep_turns: {
    name: string;
    taken_at: Timestamp;
    done_at: NullableTimestamp;
    holder: string | null;
    lease_until: NullableTimestamp;
  };
  rate_limits: { key: string; points: Generated<number>; expire: number | null };
  api_keys: {
    id: string;
    name: string;
    key_hash: string;
    scopes: string[];
    source_slugs: string[] | null;
    created_at: Timestamp;
    last_used_at: NullableTimestamp;
    revoked_at: NullableTimestamp;
  };
};
