import { Value } from 'typebox/value';
import {
  type Extraction,
  type Field,
  FIELD_NAMES,
  getField,
  type FieldValue,
  MODEL_FIELDS,
  type ModelField,
  SOURCE_FIELDS,
} from '../listing/fields.ts';
import { pricePerArea } from '../listing/listing.ts';
import {
  createRuleOrigin,
  getProvider,
  type Origins,
  type Provenance,
  type Rule,
  traceOrigin,
} from '../listing/provenance.ts';
import { isLeapSecond, type Payload, plainPayload } from '../ingest/payload.ts';
import { cleanList, cleanText, cutText, spellAlike } from '../text.ts';
import { type ExtractionRecord, extractionPrompt } from './extraction.ts';

/** The fields of a listing that the model may provide; an unknown one is missing. */
export type Facts = { [Name in ModelField]?: FieldValue<Name> };

/** Facts with their origins. */
export type Merged = { facts: Facts; origins: Origins };

const RULES: Record<
  NonNullable<Field['rules']>[number],
  (value: unknown, field: Field) => unknown
> = {
  shortened: (value, { value: schema }) =>
    cutText(String(value), 'maxLength' in schema ? Number(schema.maxLength) : Infinity),
  lower_case: (value) => String(value).toLowerCase(),
  one_spelling: (value) => spellAlike(String(value)),
  // The columns have two decimals, and so has every value that is compared with them later.
  rounded: (value) => Number(Number(value).toFixed(2)),
};

/** Returns the facts of a payload and of the model's extraction, and their provenance. */
export function mergeFields(
  rawId: number,
  payload: Payload,
  { extraction, model, requestedModel }: ExtractionRecord,
): { facts: Facts; provenance: Provenance } {
  const { facts, origins } = mergeFacts(payload, extraction);
  const fields = { ...origins };
  if (pricePerArea(facts) !== undefined) fields['price_per_m2'] = createRuleOrigin('price_by_area');
  return {
    facts,
    provenance: {
      raw_id: rawId,
      model,
      requested_model: requestedModel,
      prompt_version: extractionPrompt.version,
      fields,
    },
  };
}

/**
 * Merges a payload with what the model read out of it. The source's fields win. A value of the model that a payload could
 * not have is left out, as is one that contradicts another, such as the ninth floor of five.
 */
export function mergeFacts(payload: Payload, extraction: Extraction): Merged {
  const plain: Partial<Record<string, unknown>> = plainPayload(payload);
  const given: Partial<Record<string, unknown>> = payload;
  const facts: Record<string, unknown> = {};
  const origins: Origins = {};
  for (const name of SOURCE_FIELDS) {
    if (given[name] === undefined) continue;
    origins[name] = traceOrigin('payload', given[name], [['plain_text', plain[name]]]);
  }
  if (isLeapSecond(payload.published_at ?? '')) {
    origins['published_at'] = createRuleOrigin('leap_second', 'payload');
  }
  for (const name of MODEL_FIELDS) {
    const field = getField(name);
    const isGiven = clean(plain[name], field) !== undefined;
    const named = isGiven ? given[name] : extraction[name];
    const asText = isGiven ? plain[name] : named;
    const cleaned = clean(asText, field);
    if (cleaned === undefined) continue;
    const namer = isGiven ? 'payload' : 'model';
    const steps: [rule: Rule, value: unknown][] = [
      ['plain_text', asText],
      ['cleaned', cleaned],
    ];
    let value: unknown = cleaned;
    for (const rule of field.rules ?? []) {
      value = RULES[rule](value, field);
      steps.push([rule, value]);
    }
    const isValid = Value.Check(field.value, value);
    if (isValid && value !== '') facts[name] = value;
    origins[name] = isValid
      ? traceOrigin(namer, named, steps)
      : createRuleOrigin('not_valid', namer);
  }
  return dropContradictions({ facts, origins });
}

/** Cleans text and lists; a value without content, such as an empty text, is undefined. */
function clean(value: unknown, { value: schema }: Field): unknown {
  if (typeof value === 'string') return cleanText(value) || undefined;
  if (!Array.isArray(value)) return value ?? undefined;
  // The schemas of lists are arrays of texts with these bounds.
  const { items, maxItems } = schema as { items?: { maxLength?: number }; maxItems?: number };
  const list = cleanList(value, items?.maxLength, maxItems);
  return list.length === 0 ? undefined : list;
}

/**
 * Leaves out contradicting facts: the model's value where the source provided the other, else the part, and the whole too
 * where neither is the better known.
 */
function dropContradictions({ facts, origins }: Merged): Merged {
  const kept: Partial<Record<string, unknown>> = { ...facts };
  const known = { ...origins };
  for (const part of FIELD_NAMES) {
    const { partOf } = getField(part);
    if (partOf === undefined) continue;
    const { whole, wholeIsTrusted } = partOf;
    const [less, more] = [kept[part], kept[whole]];
    if (typeof less !== 'number' || typeof more !== 'number' || less <= more) continue;
    const [ofPart, ofWhole] = [getProvider(known[part]), getProvider(known[whole])];
    const onlyWhole = ofPart === 'payload' && ofWhole === 'model';
    const onlyPart = ofPart === 'model' && ofWhole === 'payload';
    const drop = (name: string, of: typeof ofPart) => {
      delete kept[name];
      known[name] = createRuleOrigin('contradiction', of);
    };
    if (!onlyWhole) drop(part, ofPart);
    if (onlyWhole || (!onlyPart && !wholeIsTrusted)) drop(whole, ofWhole);
  }
  return { facts: kept, origins: known };
}
