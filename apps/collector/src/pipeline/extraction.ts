import { readFileSync } from 'node:fs';
import { type Static, Type } from 'typebox';
import { choice, nullable } from '../schema.ts';

const text = () => nullable(Type.String());
const number = () => nullable(Type.Number());

/**
 * What the model answers about a payload. Which of it is used is decided when it is merged with the
 * payload: here the types are asked for, there the values are checked.
 */
export const extractionSchema = Type.Object({
  is_listing: Type.Boolean(),
  reason: text(),
  language: text(),
  title: text(),
  summary: text(),
  deal_type: nullable(choice(['sale', 'rent', 'daily_rent'])),
  property_type: text(),
  price: number(),
  currency: text(),
  city: text(),
  district: text(),
  address: text(),
  rooms: number(),
  area_total: number(),
  area_living: number(),
  area_kitchen: number(),
  floor: number(),
  floors_total: number(),
  contact_name: text(),
  phones: Type.Array(Type.String()),
  features: Type.Array(Type.String()),
});

export type Extraction = Static<typeof extractionSchema>;

/** Recorded with every listing, so that a listing made with an older prompt can be told. */
export const PROMPT_VERSION = 'listing-extraction.v1';

/** The instructions to the model, a file of their own under a version. */
export const extractionPrompt = readFileSync(
  new URL(`prompts/${PROMPT_VERSION}.md`, import.meta.url),
  'utf8',
);
