import type { ModelClient } from '@oselya/model';
import { type Static, Type } from 'typebox';
import type { Payload } from '../ingest/schemas.ts';
import { readPrompt } from '../prompt.ts';
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

/** What a model read out of a payload. */
export type Extracted = {
  extraction: Extraction;
  /** The model's name as its server gave it, and as it was asked for. */
  model: string;
  requestedModel: string;
};

/** Its version is recorded with every listing, so that one made with an older prompt can be told. */
export const extractionPrompt = readPrompt('listing-extraction.v1', import.meta.url);

/**
 * Asks the model whether a payload is a property listing, and in the same call what it says. The payload
 * goes as JSON data, never as a part of the instructions. Specification 001, Errors.
 * @throws ModelError.
 */
export async function extractListing(
  client: Pick<ModelClient, 'generateObject' | 'chatModel'>,
  payload: Payload,
  signal: AbortSignal,
): Promise<Extracted> {
  const { value, model } = await client.generateObject({
    operation: 'extract',
    schemaName: 'listing_extraction',
    schema: extractionSchema,
    system: extractionPrompt.text,
    data: payload,
    signal,
  });
  return { extraction: value, model, requestedModel: client.chatModel };
}

/** Why a payload is no property listing; undefined for one that is. */
export function refusalOf({ extraction }: Extracted): string | undefined {
  return extraction.is_listing
    ? undefined
    : (extraction.reason ?? 'The model found no property listing in the payload.');
}
