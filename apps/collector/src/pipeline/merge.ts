import type { ListingExtraction } from '@oselya/model';
import { Value } from 'typebox/value';
import { isLeapSecond } from '../payload/instant.ts';
import { plainPayload } from '../payload/plain.ts';
import { type Payload, PayloadSchema } from '../payload/schema.ts';
import { SHARED_FACTS, type SharedFact, SOURCE_FACTS } from '../listings/facts.ts';
import { cleanList, cleanText, cutText } from '../text/clean.ts';
import { spellAlike } from '../text/normalise.ts';
import type { Facts, Merged } from './facts.ts';
import { dropImpossible } from './plausible.ts';
import { byRule, type Origins, type Rule, tracedThrough } from '../listings/provenance.ts';

const MAX_SUMMARY = 2000;
const MAX_LANGUAGE = 20;
const MAX_FEATURE = 100;

/**
 * Merges what the source says with what the model read. The source's own fields win. What the model
 * says must obey the rules that a payload has to obey, else it is left out, and so is what cannot be,
 * such as the ninth floor of five.
 */
export function mergeFacts(payload: Payload, extraction: ListingExtraction): Merged {
  const plain = plainPayload(payload);
  const known: Record<string, unknown> = {};
  const origins: Origins = {};
  for (const key of SOURCE_FACTS) {
    if (payload[key] !== undefined) origins[key] = { origin: 'payload' };
  }
  origins['description'] = tracedThrough('payload', payload.description, [
    ['plain_text', plain.description],
  ]);
  if (isLeapSecond(payload.published_at ?? '')) {
    origins['published_at'] = byRule('leap_second', 'payload');
  }
  for (const key of SHARED_FACTS) {
    const own = clean(plain[key]);
    const value = own ?? clean(extraction[key]);
    const namer = own === undefined ? 'model' : 'payload';
    const named = own === undefined ? extraction[key] : payload[key];
    const asText = own === undefined ? named : plain[key];
    if (value === undefined) continue;
    if (Value.Check(PayloadSchema.properties[key], value)) {
      const steps = keep(key, value);
      const kept = steps.at(-1)?.[1];
      if (kept !== '') known[key] = kept;
      origins[key] = tracedThrough(namer, named, [
        ['plain_text', asText],
        ['cleaned', value],
        ...steps,
      ]);
    } else {
      origins[key] = byRule('not_valid', namer);
    }
  }
  const read = ownFacts(extraction);
  return dropImpossible({
    facts: { ...known, ...read.facts },
    origins: { ...origins, ...read.origins },
  });
}

/** What the rules make of a value, one after another: the last is as the listing has it. */
function keep(key: SharedFact, value: unknown): [rule: Rule, value: unknown][] {
  if (key === 'property_type') {
    const type = String(value);
    return [
      ['lower_case', type.toLowerCase()],
      ['one_spelling', spellAlike(type)],
    ];
  }
  // The columns have two decimals, and so has what is compared with them later.
  const kept = typeof value === 'number' ? Number(value.toFixed(2)) : value;
  return [['rounded', kept]];
}

/** The facts that only the model names. */
function ownFacts(extraction: ListingExtraction): Merged {
  const facts: Facts = { features: cleanList(extraction.features, MAX_FEATURE) };
  const origins: Origins = {
    features: tracedThrough('model', extraction.features, [['cleaned', facts.features]]),
  };
  const summary = cleanText(extraction.summary ?? '');
  if (summary !== '') {
    facts.summary = cutText(summary, MAX_SUMMARY);
    origins['summary'] = tracedThrough('model', extraction.summary, [
      ['cleaned', summary],
      ['shortened', facts.summary],
    ]);
  }
  const language = cleanText(extraction.language ?? '');
  if (language.length > MAX_LANGUAGE) {
    origins['language'] = byRule('not_valid', 'model');
  } else if (language !== '') {
    facts.language = language.toLowerCase();
    origins['language'] = tracedThrough('model', extraction.language, [
      ['cleaned', language],
      ['lower_case', facts.language],
    ]);
  }
  return { facts, origins };
}

/** Cleans texts; what says nothing, such as an empty text, is missing. */
function clean(value: unknown): unknown {
  if (typeof value === 'string') return cleanText(value) || undefined;
  if (Array.isArray(value)) {
    const list = cleanList(value);
    return list.length === 0 ? undefined : list;
  }
  return value ?? undefined;
}
