import { Value } from 'typebox/value';
import { applyCorrections, type Corrections } from '../listing/corrections.ts';
import {
  type Extraction,
  type FactName,
  type Field,
  FIELD_NAMES,
  getField,
  type FieldValue,
  isFact,
  MODEL_FIELDS,
  SOURCE_FIELDS,
} from '../listing/fields.ts';
import { computePricePerArea } from '../listing/listing.ts';
import { findPropertyType } from '../listing/property-types.ts';
import {
  createRuleOrigin,
  getProvider,
  isPreferred,
  type Origins,
  type Provenance,
  type Rule,
  traceOrigin,
} from '../listing/provenance.ts';
import { type PlaceColumns, resolveListingPlace } from '../places/listing-place.ts';
import { isLeapSecond, type Payload, toPlainPayload } from '../ingest/payload.ts';
import { cleanList, cleanText, normalizeText, truncateText } from '../text.ts';
import { type ExtractionRecord, extractionPrompt } from './extraction.ts';

/** Merged values of the listing fields that the model, a rule or a person may provide. Unknown fields are absent. */
export type Facts = { [Name in FactName]?: FieldValue<Name> };

type MergedFacts = { facts: Facts; origins: Origins };

const VALUE_RULES: Record<
  NonNullable<Field['rules']>[number],
  (value: unknown, field: Field) => unknown
> = {
  shortened: (value, { value: schema }) =>
    truncateText(String(value), 'maxLength' in schema ? Number(schema.maxLength) : Infinity),
  lower_case: (value) => String(value).toLowerCase(),
  known_type: (value) => findPropertyType(String(value)),
  // The columns have two decimals, so unrounded values would differ from the stored ones.
  rounded: (value) => Number(Number(value).toFixed(2)),
};

/** Facts with corrections, their origins and their place. */
type CompletedFacts = MergedFacts & { corrections: Corrections; place: PlaceColumns };

/**
 * Merges the fields of a payload and its extraction, applies the corrections of the listing, resolves the place, and
 * returns the facts with their provenance.
 */
export function mergeFields(
  rawId: number,
  payload: Payload,
  { extraction, model, requestedModel }: ExtractionRecord,
  corrections: Corrections,
): Omit<CompletedFacts, 'origins'> & { provenance: Provenance } {
  const { origins, ...completedFacts } = completeFacts(
    mergeFacts(payload, extraction),
    corrections,
    payload.description,
  );
  return {
    ...completedFacts,
    provenance: {
      raw_id: rawId,
      model,
      requested_model: requestedModel,
      prompt_version: extractionPrompt.version,
      fields: origins,
    },
  };
}

/** Applies corrections to facts, drops facts that contradict them, and resolves the place of the result. */
export function completeFacts(
  mergedFacts: MergedFacts,
  corrections: Corrections,
  description: string,
): CompletedFacts {
  const corrected = applyCorrections(mergedFacts, corrections);
  const { facts, origins, place } = resolvePlaceOfFacts(dropContradictions(corrected), description);
  const fields = { ...origins };
  if (facts.price_per_m2 === undefined && computePricePerArea(facts) !== undefined)
    fields['price_per_m2'] = createRuleOrigin('price_by_area');
  fields['place'] = createRuleOrigin('place_by_names');
  return { facts, origins: fields, corrections: corrected.corrections, place };
}

/** Resolves the place that the facts name, and writes its city and district as the gazetteer names them. */
function resolvePlaceOfFacts(
  { facts, origins }: MergedFacts,
  description: string,
): MergedFacts & { place: PlaceColumns } {
  const { city = null, district = null, address = null, title = null } = facts;
  const resolution = resolveListingPlace({ city, district, address, title, description });
  const newFacts = { ...facts };
  const newOrigins = { ...origins };
  for (const name of ['city', 'district'] as const) {
    const value = resolution[name];
    if (value === null || value === facts[name]) continue;
    newFacts[name] = value;
    const provider = getProvider(origins[name] ?? origins['city'] ?? origins['district']);
    newOrigins[name] = createRuleOrigin('place_name', provider);
  }
  return { facts: newFacts, origins: newOrigins, place: resolution.columns };
}

/**
 * Merges a payload with its extraction. Fields of the payload take precedence. Invalid and
 * contradictory values, such as floor 9 of 5, are dropped.
 */
export function mergeFacts(payload: Payload, extraction: Extraction): MergedFacts {
  const plainPayload: Partial<Record<string, unknown>> = toPlainPayload(payload);
  const rawPayload: Partial<Record<string, unknown>> = payload;
  const facts: Record<string, unknown> = {};
  const origins: Origins = {};
  for (const name of SOURCE_FIELDS) {
    if (rawPayload[name] === undefined) continue;
    if (isFact(name)) facts[name] = rawPayload[name];
    origins[name] = traceOrigin('source', rawPayload[name], [['plain_text', plainPayload[name]]]);
  }
  if (isLeapSecond(payload.published_at ?? '')) {
    origins['published_at'] = createRuleOrigin('leap_second', 'source');
  }
  for (const name of MODEL_FIELDS) {
    const field = getField(name);
    const isFromPayload = cleanFieldValue(plainPayload[name], field) !== undefined;
    const sourceValue = isFromPayload ? rawPayload[name] : extraction[name];
    const plainValue = isFromPayload ? plainPayload[name] : sourceValue;
    const cleanValue = cleanFieldValue(plainValue, field);
    if (cleanValue === undefined) continue;
    const provider = isFromPayload ? 'source' : 'model';
    const ruleResults: [rule: Rule, value: unknown][] = [
      ['plain_text', plainValue],
      ['cleaned', cleanValue],
    ];
    let value: unknown = cleanValue;
    for (const rule of field.rules ?? []) {
      value = VALUE_RULES[rule](value, field);
      ruleResults.push([rule, value]);
    }
    const isValid = Value.Check(field.value, value);
    if (isValid && value !== '') facts[name] = value;
    origins[name] = isValid
      ? traceOrigin(provider, sourceValue, ruleResults)
      : createRuleOrigin(value === undefined ? 'unknown_type' : 'not_valid', provider);
    if (name !== 'property_type' || typeof cleanValue !== 'string') continue;
    if (!Value.Check(field.value, cleanValue) || normalizeText(cleanValue) === value) continue;
    facts['property_type_text'] = cleanValue;
    origins['property_type_text'] = traceOrigin(provider, sourceValue, ruleResults.slice(0, 2));
  }
  return dropContradictions({ facts, origins });
}

/** Returns a value as the rules of its field write it; undefined if it is empty, unknown or invalid. */
export function normalizeFieldValue(name: FactName, value: unknown): unknown {
  const field = getField(name);
  let newValue = cleanFieldValue(value, field);
  for (const rule of field.rules ?? []) {
    if (newValue !== undefined) newValue = VALUE_RULES[rule](newValue, field);
  }
  return Value.Check(field.value, newValue) ? newValue : undefined;
}

/** Cleans strings and lists. Returns undefined for empty values. */
function cleanFieldValue(value: unknown, { value: schema, emptyValue }: Field): unknown {
  if (value === emptyValue) return undefined;
  if (typeof value === 'string') return cleanText(value) || undefined;
  if (!Array.isArray(value)) return value ?? undefined;
  // The schemas of all list fields are arrays of strings.
  const { items, maxItems } = schema as { items?: { maxLength?: number }; maxItems?: number };
  const cleanItems = cleanList(value, items?.maxLength, maxItems);
  return cleanItems.length === 0 ? undefined : cleanItems;
}

/**
 * Drops contradictory facts. If the values have different providers, drops that of the less preferred one. Otherwise drops the part, and also the whole unless the whole is trusted.
 */
function dropContradictions({ facts, origins }: MergedFacts): MergedFacts {
  const newFacts: Partial<Record<string, unknown>> = { ...facts };
  const newOrigins = { ...origins };
  for (const partName of FIELD_NAMES) {
    const { partOf } = getField(partName);
    if (partOf === undefined) continue;
    const { whole: wholeName, isWholeTrusted } = partOf;
    const [partValue, wholeValue] = [newFacts[partName], newFacts[wholeName]];
    if (typeof partValue !== 'number' || typeof wholeValue !== 'number' || partValue <= wholeValue)
      continue;
    const [partProvider, wholeProvider] = [
      getProvider(newOrigins[partName]),
      getProvider(newOrigins[wholeName]),
    ];
    const shouldDropOnlyWhole = isPreferred(partProvider, wholeProvider);
    const shouldDropOnlyPart = isPreferred(wholeProvider, partProvider);
    const dropFact = (name: string, provider: typeof partProvider) => {
      delete newFacts[name];
      newOrigins[name] = createRuleOrigin('contradiction', provider);
    };
    if (!shouldDropOnlyWhole) dropFact(partName, partProvider);
    if (shouldDropOnlyWhole || (!shouldDropOnlyPart && !isWholeTrusted))
      dropFact(wholeName, wholeProvider);
  }
  return { facts: newFacts, origins: newOrigins };
}
