import { Type } from 'typebox';
import { nullable } from '../schemas/common.ts';

const text = nullable(Type.String());
const number = nullable(Type.Number());
const integer = nullable(Type.Integer());

/**
 * The facts of a listing, each with what the API answers: the one list of them. A fact has the same name
 * as the payload's field, in the model's answer and as a column. Contract 4, PayloadSchema.
 */
export const factSchemas = {
  url: text,
  title: text,
  description: Type.String(),
  summary: text,
  language: text,
  deal_type: text,
  property_type: text,
  price: number,
  currency: text,
  city: text,
  district: text,
  address: text,
  rooms: integer,
  area_total: number,
  area_living: number,
  area_kitchen: number,
  floor: integer,
  floors_total: integer,
  latitude: number,
  longitude: number,
  contact_name: text,
  phones: Type.Array(Type.String()),
  features: Type.Array(Type.String()),
  attributes: Type.Object({}, { additionalProperties: true }),
  published_at: nullable(Type.String({ format: 'date-time' })),
};

/** The name of a fact. */
export type FactKey = keyof typeof factSchemas;

/** All names, in the order in which answers have them. */
// TypeScript gives the keys of any object as texts; this one has no others.
export const FACTS = Object.keys(factSchemas) as FactKey[];

/** The facts that the model does not look for: they are as the source says. */
export const SOURCE_FACTS = [
  'url',
  'description',
  'latitude',
  'longitude',
  'attributes',
  'published_at',
] as const satisfies readonly FactKey[];

/** The facts that the source does not name: they are as the model reads. */
export const MODEL_FACTS = [
  'summary',
  'language',
  'features',
] as const satisfies readonly FactKey[];

/** The facts that both may name. */
export type SharedFact = Exclude<
  FactKey,
  (typeof SOURCE_FACTS)[number] | (typeof MODEL_FACTS)[number]
>;

const OF_ONE: ReadonlySet<FactKey> = new Set([...SOURCE_FACTS, ...MODEL_FACTS]);

/** Their names. */
export const SHARED_FACTS = FACTS.filter((key): key is SharedFact => !OF_ONE.has(key));

/**
 * The facts whose changes are a listing's history: all but the summary, which is worded anew from the
 * others, and so names no change of its own.
 */
export const TRACKED_FACTS = FACTS.filter((key) => key !== 'summary');
