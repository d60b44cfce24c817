import { isDeepStrictEqual } from 'node:util';
import { Type } from 'typebox';
import { nullable } from '../schemas.ts';

/** Providers of values. The value of a later one replaces that of an earlier one. */
const PROVIDERS = ['model', 'source', 'person'] as const;
export type ValueProvider = (typeof PROVIDERS)[number];

/** Rules that change, omit or derive values, with their descriptions for the API. */
export const RULES = {
  plain_text: 'converted from HTML to plain text',
  cleaned:
    'written on one line with single spaces, and without characters that cannot be ' +
    'stored, or list entries that are empty, repeated, too long or too many',
  lower_case: 'written in lower case',
  known_type: 'replaced by the kind of property that the word names',
  unknown_type:
    'omitted, since the word names no known kind of property; `property_type_text` has it',
  rounded: 'rounded to two decimals',
  shortened: 'truncated to the maximum length',
  not_valid: 'omitted, since it violates a rule for payloads',
  contradiction: 'omitted, since it contradicts another fact',
  place_name: 'written as the gazetteer of places names it',
  place_by_names: 'the place in the gazetteer that city, district and address name',
  leap_second: 'converted from a leap second to the preceding second',
  price_by_area: 'the price divided by the total area',
} as const;

export type Rule = keyof typeof RULES;

/**
 * Origin of a field: the provider if the value is unchanged, otherwise the rule, and the provider whose value the rule
 * changed or omitted.
 */
export type Origin = { origin: ValueProvider } | { origin: 'rule'; rule: Rule; of?: ValueProvider };

/** Origins by field name, including the origins of omitted values. */
export type Origins = Record<string, Origin>;

/** Origin of a listing's values. Specification 001, What the service does, 2. */
export type Provenance = {
  raw_id: number;
  model: string;
  requested_model: string;
  prompt_version: string;
  fields: Origins;
};

const ruleDescriptions = Object.entries(RULES).map(([rule, effect]) => `\`${rule}\`, ${effect}`);

/** Schema of the provenance of a listing in responses. */
export const provenanceSchema = Type.Object(
  {
    raw_id: nullable(
      Type.Integer({
        description:
          'ID of the last payload with this content; null after the payload was removed because of its age.',
      }),
    ),
    model: nullable(Type.String({ description: 'Model name that the server reported.' })),
    prompt_version: nullable(Type.String()),
    fields: Type.Record(
      Type.String(),
      Type.Object({
        origin: Type.Enum(['source', 'model', 'person', 'rule']),
        rule: Type.Optional(Type.String({ description: `${ruleDescriptions.join('; ')}.` })),
        of: Type.Optional(
          Type.String({ description: 'Provider of the value that the rule changed or omitted.' }),
        ),
      }),
      { description: 'Values by field name; fields without a value are omitted.' },
    ),
  },
  { description: 'The origin of each field.' },
);

/** Returns whether the value of a provider replaces that of another provider; false if one is unknown. */
export function isPreferred(
  provider: ValueProvider | undefined,
  otherProvider: ValueProvider | undefined,
): boolean {
  if (provider === undefined || otherProvider === undefined) return false;
  return PROVIDERS.indexOf(provider) > PROVIDERS.indexOf(otherProvider);
}

/** Creates the origin of a value that a rule changed, omitted or derived. */
export function createRuleOrigin(rule: Rule, provider?: ValueProvider): Origin {
  return provider === undefined ? { origin: 'rule', rule } : { origin: 'rule', rule, of: provider };
}

/**
 * Returns the origin of a value: the last rule that changed it, or its provider if none did.
 * @param appliedRules Each rule with the value that it returned.
 */
export function traceOrigin(
  provider: ValueProvider,
  initialValue: unknown,
  appliedRules: readonly (readonly [rule: Rule, value: unknown])[],
): Origin {
  let origin: Origin = { origin: provider };
  let previousValue = initialValue;
  for (const [rule, value] of appliedRules) {
    if (!isDeepStrictEqual(value, previousValue)) origin = createRuleOrigin(rule, provider);
    previousValue = value;
  }
  return origin;
}

/** Returns the provider of a value, whether or not a rule changed it; undefined for derived and unknown values. */
export function getProvider(origin: Origin | undefined): ValueProvider | undefined {
  return origin?.origin === 'rule' ? origin.of : origin?.origin;
}
