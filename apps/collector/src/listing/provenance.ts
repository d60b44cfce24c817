import { isDeepStrictEqual } from 'node:util';

/** Who may name a fact. */
export type Namer = 'payload' | 'model';

/** What our own code does to facts, or makes of them. The API's description names each. */
export const RULES = {
  plain_text: 'written without the tags and entities of HTML',
  cleaned:
    'written on one line with single spaces, and without what is not kept: characters that cannot be ' +
    'stored, and entries of a list that are empty, repeated, too long or too many',
  lower_case: 'written in lower case',
  one_spelling: 'written in the one spelling that filters look for',
  rounded: 'rounded to two decimals',
  shortened: 'cut at its longest length',
  not_valid: 'left out, since it breaks a rule of payloads',
  contradiction: 'left out, since it contradicts another fact',
  leap_second: 'a leap second, taken for the second before it',
  price_by_area: 'the price divided by the total area',
} as const;

/** A rule by which a value was changed or left out. */
export type Rule = keyof typeof RULES;

/**
 * Where a fact comes from. Of a payload or a model are those that are as they were named, times at least the
 * same instant. By a rule: which one, and whose value it changed or left out.
 */
export type Origin = { origin: Namer } | { origin: 'rule'; rule: Rule; of?: Namer };

/** Where each fact comes from, and what was left out of them, by the names of the facts. */
export type Origins = Record<string, Origin>;

/** How a listing's facts came about. Specification 001, What the service does, 2. */
export type Provenance = {
  /** The raw record whose payload they were read from. */
  raw_id: number;
  /** The model's name as its server gave it, and as it was asked for. */
  model: string;
  requested_model: string;
  prompt_version: string;
  fields: Origins;
};

/** What has gone through a rule, and whose value it was. */
export function byRule(rule: Rule, of?: Namer): Origin {
  return of === undefined ? { origin: 'rule', rule } : { origin: 'rule', rule, of };
}

/**
 * Where a value comes from that has gone through rules: from the last one that changed it.
 * @param steps Each rule, and the value after it.
 */
export function tracedThrough(
  namer: Namer,
  named: unknown,
  steps: readonly (readonly [rule: Rule, value: unknown])[],
): Origin {
  let origin: Origin = { origin: namer };
  let before = named;
  for (const [rule, value] of steps) {
    if (!isDeepStrictEqual(value, before)) origin = byRule(rule, namer);
    before = value;
  }
  return origin;
}

/** Whose value a fact is, be it as it was named or changed by a rule. */
export function namerOf(origin: Origin | undefined): Namer | undefined {
  return origin?.origin === 'rule' ? origin.of : origin?.origin;
}
