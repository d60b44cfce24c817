/** The languages a text can be told to be in; `mixed` when none has a clear majority. */
export type Language = 'uk' | 'ru' | 'en' | 'mixed';

/** What is offered: for good, by the month, or by the night (Contract 4, PayloadSchema). */
export type DealType = 'sale' | 'rent' | 'daily_rent';

/** The kind of property offered. */
export type PropertyType = 'apartment' | 'house' | 'room' | 'land' | 'commercial' | 'garage';

/** The facts of one listing as the model reports them (Contract 4, Model). Unknown is null. */
export interface ListingExtraction {
  is_listing: boolean;
  /** Why the payload is no property listing, an English sentence; null for listings. */
  reason: string | null;
  language: Language;
  /** A short, cleaned title. */
  title: string | null;
  /** One or two sentences made from the facts, in the text's language. */
  summary: string | null;
  deal_type: DealType | null;
  property_type: PropertyType | null;
  /** The asking price: in all for a sale, for a month of rent, for a night of daily rent. */
  price: number | null;
  /** ISO 4217. */
  currency: string | null;
  /** Ukrainian nominative for the places the gazetteer knows, otherwise as written. */
  city: string | null;
  district: string | null;
  /** Street and number as written. */
  address: string | null;
  /** Rooms as the text counts them; bedrooms where an English text counts only those. */
  rooms: number | null;
  /** Square metres, as are the other areas. */
  area_total: number | null;
  area_living: number | null;
  area_kitchen: number | null;
  /** Counted from 1 at street level. */
  floor: number | null;
  floors_total: number | null;
  contact_name: string | null;
  /** International form, `+` and digits. */
  phones: string[];
  /** Sorted slugs out of `FEATURE_SLUGS`. */
  features: string[];
}

/** What a picture shows, as far as listings are concerned. */
export type RoomType =
  | 'kitchen'
  | 'bathroom'
  | 'bedroom'
  | 'living_room'
  | 'exterior'
  | 'plan'
  | 'other';

/** The answer to a question about one picture. */
export interface ImageDescription {
  description: string;
  room_type: RoomType;
  quality: 'good' | 'poor';
}
