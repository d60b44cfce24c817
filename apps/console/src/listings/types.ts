/** Amount in a currency. */
export type Price = { amount: number; currency: string };

/** Image with its signed addresses. */
export type Image = {
  sha256: string;
  width: number;
  height: number;
  links: { small: string; large: string; original: string };
};

export type Place = {
  place_id: number | null;
  city: string | null;
  district: string | null;
  region: string | null;
  text: string | null;
};

/** Listing in the answers of searches. */
export type Listing = {
  listing_id: number;
  source_slug: string;
  external_id: string;
  url: string | null;
  language: string | null;
  title: string | null;
  description: string;
  deal_type: string | null;
  property_type: string | null;
  property_type_text: string | null;
  price: number | null;
  currency: string | null;
  price_converted: (Price & { rate_date: string }) | null;
  price_per_m2: number | null;
  city: string | null;
  district: string | null;
  address: string | null;
  place: Place | null;
  rooms: number | null;
  area_total: number | null;
  area_living: number | null;
  area_kitchen: number | null;
  floor: number | null;
  floors_total: number | null;
  year_built: number | null;
  features: string[];
  contact_name: string | null;
  phones: string[];
  published_at: string | null;
  first_seen_at: string;
  archived_at: string | null;
  cover: Image | null;
  image_count: number;
  previous_price: { price: number; currency: string; changed_at: string } | null;
  duplicate_count: number;
};

export type Hit = { listing: Listing; highlight?: string; duplicates?: number[] };

export type Origin = 'source' | 'model' | 'rule' | 'person';

/** Likely duplicate of a listing, with the reasons. */
export type Duplicate = {
  listing_id: number;
  source_slug: string;
  url: string | null;
  price: number | null;
  currency: string | null;
  score: number;
  reasons: { reason: string; part: number; detail: string }[];
};

/** Correction by a person. */
export type Correction = {
  replaced: unknown;
  corrected_at: string;
  corrected_by: { api_key_name: string | null; by: string | null };
};

/** Listing with the details for its page. */
export type ListingDetail = Listing & {
  provenance: {
    raw_id: number | null;
    model: string | null;
    fields: Record<string, { origin: Origin; rule?: string; of?: string }>;
  } | null;
  corrections: Record<string, Correction>;
  duplicates: Duplicate[];
};

/** State of a listing after a change, newest first. */
export type Snapshot = {
  raw_id: number;
  corrected_by: { api_key_name: string | null; by: string | null } | null;
  reprocessed: boolean;
  created_at: string;
  changes: Record<string, { from: unknown; to: unknown }>;
};

/** First price of a listing, or a change of it. */
export type PriceChange = {
  listing_id: number;
  source_slug: string;
  price: number | null;
  currency: string | null;
  price_converted: Price | null;
  changed_at: string;
};

export const STATUSES = [
  'interested',
  'contacted',
  'viewing',
  'viewed',
  'offered',
  'rejected',
  'unavailable',
] as const;

export type Status = (typeof STATUSES)[number];

/** The user's mark on a listing. */
export type Mark = {
  listing_id: number;
  status: Status | null;
  rating: number | null;
  note: string | null;
  tags: string[];
  hidden: boolean;
  seen: boolean;
  follow_up_on: string | null;
};
