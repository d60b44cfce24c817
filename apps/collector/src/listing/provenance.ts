import { isDeepStrictEqual } from 'node:util';

/** The sides that provide fields. */
export type ValueProvider = 'payload' | 'model';

/** The rules that change, omit or derive fields, as the API's description names them. */
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

/** A rule that changed, omitted or derived a value. */
export type Rule = keyof typeof RULES;

/**
 * The origin of a field: the payload or the model where the value is unchanged, else the rule, and the side whose value it
 * changed or left out.
 */
export type Origin = { origin: ValueProvider } | { origin: 'rule'; rule: Rule; of?: ValueProvider };

/** The origin of each field, also of those that were left out, by name. */
export type Origins = Record<string, Origin>;

/** The provenance of a listing. Specification 001, What the service does, 2. */
export type Provenance = {
  raw_id: number;
  /** The model's name as its server gives it, and as configured. */
  model: string;
  requested_model: string;
  prompt_version: string;
  fields: Origins;
};

/** Returns the origin of a value that a rule changed or left out. */
export function createRuleOrigin(rule: Rule, of?: ValueProvider): Origin {
  return of === undefined ? { origin: 'rule', rule } : { origin: 'rule', rule, of };
}

/**
 * Returns the origin of a value after rules: the last one that changed it, or the side itself.
 * @param steps Each rule, and the value after it.
 */
export function traceOrigin(
  provider: ValueProvider,
  named: unknown,
  steps: readonly (readonly [rule: Rule, value: unknown])[],
): Origin {
  let origin: Origin = { origin: provider };
  let before = named;
  for (const [rule, value] of steps) {
    if (!isDeepStrictEqual(value, before)) origin = createRuleOrigin(rule, provider);
    before = value;
  }
  return origin;
}

/** Returns the side that provided a value, unchanged or not. */
export function getProvider(origin: Origin | undefined): ValueProvider | undefined {
  return origin?.origin === 'rule' ? origin.of : origin?.origin;
}
