import type { ListingExtraction } from '@oselya/model';
import type { ColumnType, Generated, JSONColumnType } from 'kysely';
import type { RAW_STATUSES, StageOutcome } from '../schemas/raw.ts';

/** A timestamp that is read as a Date and may be written as text. */
type Timestamp = ColumnType<Date, Date | string | undefined, Date | string>;
type NullableTimestamp = ColumnType<
  Date | null,
  Date | string | null | undefined,
  Date | string | null
>;

/** How far a payload has come. Specification 001, Raw data status. */
export type RawStatus = (typeof RAW_STATUSES)[number];

/** How a stage of a payload ended, when it began, in RFC 3339, and how long it took. Contract 4, Answers. */
export type StageRecord = {
  stage: string;
  outcome: StageOutcome;
  started_at: string;
  duration_ms: number;
};

/** Why a raw record is invalid or failed: a code of the error table and a sentence. */
export type RawError = { code: string; message: string; stage?: string };

/** What the model was asked for a payload, and what of it its server counted: 0 where it does not. */
export type ModelUsage = { calls: number; input_tokens: number; output_tokens: number };

/** Why a picture could not be described, what the model was asked with, and when. */
export type DescribeError = {
  code: string;
  message: string;
  requested_model: string;
  prompt_version: string;
  failed_at: string;
};

/** What became of a picture that came along: stored bytes, or the reason why it cannot be used. */
export type UploadOutcome =
  | {
      sha256: string;
      width: number;
      height: number;
      /** Whether these bytes were stored before. */
      duplicate: boolean;
    }
  | { error: string };

/** What speaks for two listings being the same property, or against it. */
export type ReasonName = 'text' | 'place' | 'area' | 'rooms' | 'price' | 'pictures' | 'seller';

/** One reason, and its part of the score: below zero it speaks against. */
export type Reason = { reason: ReasonName; part: number; detail: string };

/** What may become of a listing, for those who follow what a search finds. */
export type ChangeKind = 'new' | 'price_changed' | 'returned';

/** The collector's tables. Specification 001, Resources and their fields; Contract 4, Tables. */
export type Tables = {
  sources: { slug: string; created_at: Timestamp };
  property_listings: {
    id: Generated<number>;
    source_slug: string;
    external_id: string;
    url: string | null;
    title: string | null;
    description: string;
    summary: string | null;
    language: string | null;
    deal_type: string | null;
    property_type: string | null;
    price: number | null;
    currency: string | null;
    city: string | null;
    city_key: string | null;
    district: string | null;
    address: string | null;
    rooms: number | null;
    area_total: number | null;
    area_living: number | null;
    area_kitchen: number | null;
    floor: number | null;
    floors_total: number | null;
    latitude: number | null;
    longitude: number | null;
    contact_name: string | null;
    phones: string[];
    features: string[];
    attributes: JSONColumnType<Record<string, unknown>>;
    published_at: NullableTimestamp;
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
  listing_payloads: {
    source_slug: string;
    external_id: string;
    raw_id: number;
    completed_hash: string | null;
  };
  listing_snapshots: {
    id: Generated<number>;
    listing_id: number;
    raw_id: number;
    revision: Generated<number>;
    listing: JSONColumnType<Record<string, unknown>>;
    changes: JSONColumnType<Record<string, { from: unknown; to: unknown }>>;
    /** `payload` or `model`; null where there is none, and in snapshots from before 0023. */
    title_by: string | null;
    model: string | null;
    prompt_version: string | null;
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
    /** The model that described it, as its server named it, and the version of the prompt. */
    described_by: string | null;
    prompt_version: string | null;
    /** The same model by the name by which it was asked for; unknown of those described before 0017. */
    requested_model: string | null;
    /** Null where nobody has asked, and once it is described. */
    describe_error: ColumnType<DescribeError | null, string | null | undefined, string | null>;
    /** More than a number holds: it is read as text. */
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
    /** From when on its address may be asked again; null where that would be of no use. */
    retry_at: NullableTimestamp;
    /** The payload whose turn it is to ask it again, until what became of it is recorded. */
    turn_raw_id: number | null;
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
    /** The attempt at which it was last taken to be read again; 0 while it never was. */
    revision: Generated<number>;
    /** The worker that has it. Of a pending payload, the one that drains its slots to process it alone. */
    claimed_by: string | null;
    lease_expires_at: NullableTimestamp;
    error: ColumnType<RawError | null, string | null | undefined, string | null>;
    stages: ColumnType<StageRecord[], string | undefined, string>;
    model_usage: ColumnType<ModelUsage | null, string | null | undefined, string | null>;
    /** Of the running attempt, as its worker last told of it. */
    attempt_usage: ColumnType<ModelUsage | null, string | null | undefined, string | null>;
    listing_id: number | null;
    idempotency_key: string | null;
    waits: Generated<boolean>;
    inline: Generated<boolean>;
    request_id: string | null;
    uploads: ColumnType<UploadOutcome[] | null, string | null | undefined, string | null>;
    /** Since when it is there to be processed again, after it had ended; null while it is so since it came. */
    queued_at: NullableTimestamp;
    created_at: Timestamp;
    updated_at: Timestamp;
  };
  raw_readings: {
    raw_id: number;
    revision: number;
    extraction: JSONColumnType<ListingExtraction>;
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
  duplicate_marks: {
    id: Generated<number>;
    listing_id: number;
    marked_at: Timestamp;
    claimed_until: NullableTimestamp;
    attempts: Generated<number>;
  };
  listing_changes: {
    id: Generated<number>;
    /** Null until it was given one: then it is committed. */
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
  upkeep_turns: { name: string; taken_at: Timestamp; done_at: NullableTimestamp };
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
