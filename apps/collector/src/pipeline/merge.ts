import { Value } from 'typebox/value';
import { type Payload, PayloadSchema } from '../ingest/schemas.ts';
import { cleanList, cleanText } from './clean.ts';
import type { Extraction } from './extraction.ts';
import { dropImpossible } from './plausible.ts';

/** The facts that both the payload and the model may name, under the names of both. */
export const SHARED = [
  'title',
  'deal_type',
  'property_type',
  'price',
  'currency',
  'city',
  'district',
  'address',
  'rooms',
  'area_total',
  'area_living',
  'area_kitchen',
  'floor',
  'floors_total',
  'contact_name',
  'phones',
] as const;

type SharedKey = (typeof SHARED)[number];

/** What is known about a listing; a fact that nobody named is missing. */
export type Facts = Partial<Pick<Payload, SharedKey>> & {
  summary?: string;
  language?: string;
  features: string[];
};

/** Who named each fact. */
export type Provenance = Partial<Record<keyof Facts, 'payload' | 'model'>>;

export type Merged = { facts: Facts; provenance: Provenance };

const MAX_SUMMARY = 2000;
const MAX_LANGUAGE = 20;
const MAX_FEATURE = 100;

/**
 * Merges what the source says with what the model read. The source's own fields win. What the model
 * says must obey the rules that a payload has to obey, else it is left out, and so is what cannot be,
 * such as the ninth floor of five.
 */
export function mergeFacts(payload: Payload, extraction: Extraction): Merged {
  const known: Record<string, unknown> = {};
  const provenance: Provenance = {};
  for (const key of SHARED) {
    const own = clean(payload[key]);
    const read = clean(extraction[key]);
    const [value, origin] =
      own === undefined ? ([read, 'model'] as const) : ([own, 'payload'] as const);
    if (value === undefined || !Value.Check(PayloadSchema.properties[key], value)) continue;
    known[key] = key === 'property_type' ? String(value).toLowerCase() : value;
    provenance[key] = origin;
  }
  const facts: Facts = { ...known, features: cleanList(extraction.features, MAX_FEATURE) };
  const summary = cleanText(extraction.summary ?? '').slice(0, MAX_SUMMARY);
  if (summary !== '') facts.summary = summary.toWellFormed();
  const language = cleanText(extraction.language ?? '').toLowerCase();
  if (language !== '' && language.length <= MAX_LANGUAGE) facts.language = language;
  for (const key of ['summary', 'language', 'features'] as const) {
    if (facts[key] !== undefined) provenance[key] = 'model';
  }
  return dropImpossible({ facts, provenance });
}

/** Trims text; what says nothing, such as an empty text, is missing. */
function clean(value: unknown): unknown {
  if (typeof value === 'string') return cleanText(value) || undefined;
  if (Array.isArray(value)) {
    const list = cleanList(value);
    return list.length === 0 ? undefined : list;
  }
  return value ?? undefined;
}
