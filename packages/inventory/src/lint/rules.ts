import leven from 'leven';
import { isValidPort } from '../address.ts';
import { addDays, countDaysBetween, type Day, parseDay } from '../day.ts';
import type { LintCode, Position, Severity } from '../finding.ts';
import type { PropertyProblem } from '../read/check-record.ts';
import { type EndpointRecord, EXPOSURES, PROPERTY_TYPES, REQUIRED_KEYS } from '../record.ts';
import { quoteId, quoteText } from '../text.ts';

/** Property problem without the code and severity of its rule. */
export type RuleProblem = Omit<PropertyProblem, 'code' | 'severity'>;

/** Record properties whose types conform to the schema. */
export type TypedFields = Readonly<Partial<EndpointRecord>>;

/** First position of each ID in the inventories of one run. */
export type SeenIds = Map<string, { file: string } & Position>;

/** Context that the rules share for one inventory, with its label as `file`. */
export type RuleContext = { today: Day; file: string; ids: SeenIds };

type RuleResult = RuleProblem | RuleProblem[] | undefined;

export type Rule<Options = unknown> = {
  severity: Severity;
  /** JSON Schemas (draft 2020-12) of the options in inventory.config.json, by name. */
  options?: Readonly<Record<string, object>>;
  defaults?: Options;
  /** Checks a record. The records of an inventory are checked in order. */
  check(
    fields: TypedFields,
    context: RuleContext,
    position: Position,
    options: Options,
  ): RuleResult;
};

/** Returns the extra properties of a record, and the known properties whose types conform to the schema. */
export function getTypedFields(value: object): TypedFields {
  // No prototype, because a record may have keys such as `toString`.
  const fields: Record<string, unknown> = Object.create(null);
  for (const [key, fieldValue] of Object.entries(value)) {
    const type = PROPERTY_TYPES.get(key);
    const hasType = type === 'integer' ? Number.isInteger(fieldValue) : typeof fieldValue === type;
    if (type === undefined || hasType) fields[key] = fieldValue;
  }
  return fields;
}

function getFieldAdvice(key: string): string {
  if (key === 'owner_host') return 'name the machine or team that runs it';
  if (key === 'last_reviewed') return 'write the day of the last review, as in 2026-11-20';
  return REQUIRED_KEYS.has(key) ? 'it is required: fill it in' : 'fill it in, or omit the property';
}

function isSimilar(key: string, knownKey: string): boolean {
  const [normalizedKey, normalizedKnownKey] = [normalizeName(key), normalizeName(knownKey)];
  // One character changes the meaning of a short name, as in host and post.
  const maxDistance = normalizedKnownKey.length < 5 ? 0 : normalizedKnownKey.length < 9 ? 1 : 2;
  return leven(normalizedKey, normalizedKnownKey, { maxDistance: maxDistance + 1 }) <= maxDistance;
}

function normalizeName(name: string): string {
  return name.toLowerCase().replaceAll(/[-_\s]/g, '');
}

/** Lower-case values of `auth` that carry no information. `open` and `anonymous` are informative. */
export const EMPTY_AUTH_VALUES: ReadonlySet<string> = new Set(
  `none, no, nothing, nil, n/a, n.a, na, not applicable, off, disabled, false, no auth,
  no authentication, without auth, without authentication, unauthenticated, unknown, not known,
  unclear, null, undefined, tbd, tba, todo, to do, to be defined, to be determined, fixme,
  немає, нема, ні, без автентифікації, невідомо`.split(/,\s+/),
);

const MAX_EMPTY_AUTH_CHARACTERS = 60;
/** Leading and trailing punctuation, as in `(none)`, `-` or `???`. */
const OUTER_PUNCTUATION_PATTERN = /^[\s\p{P}<>~=]+|[\s\p{P}<>~=]+$/gu;

function isEmptyAuth(auth: string): boolean {
  const text = auth.trim();
  if (text.length > MAX_EMPTY_AUTH_CHARACTERS) return false;
  const authWords = text.replaceAll(OUTER_PUNCTUATION_PATTERN, '').replaceAll(/[\s_-]+/g, ' ');
  return authWords === '' || EMPTY_AUTH_VALUES.has(authWords.toLowerCase());
}

type StaleOptions = {
  days: number;
  days_by_exposure: Partial<Record<EndpointRecord['exposure'], number>>;
};

const DAYS_SCHEMA = { type: 'integer', minimum: 1 };

const staleReview: Rule<StaleOptions> = {
  severity: 'warning',
  defaults: { days: 365, days_by_exposure: {} },
  options: {
    days: DAYS_SCHEMA,
    days_by_exposure: {
      type: 'object',
      properties: Object.fromEntries(EXPOSURES.map((exposure) => [exposure, DAYS_SCHEMA])),
      additionalProperties: false,
    },
  },
  check({ last_reviewed: reviewText, exposure }, { today }, _position, options) {
    const day = reviewText === undefined ? null : parseDay(reviewText);
    if (day === null) return undefined;
    const age = countDaysBetween(day, today);
    const { days, days_by_exposure: byExposure } = options;
    const limit = (exposure === undefined ? undefined : byExposure[exposure]) ?? days;
    if (age <= limit) return undefined;
    const message = `the last review was ${age} days ago, and the limit is ${limit}; review the endpoint and update the date`;
    return { key: 'last_reviewed', message };
  },
};

export const RECORD_RULES = {
  'lint/blank-field': {
    severity: 'warning',
    check(fields) {
      let problems: RuleProblem[] | undefined;
      // Fields inherit no enumerable properties, and `for…in` is the fastest iteration.
      for (const key in fields) {
        const value = fields[key];
        if (typeof value !== 'string' || value.trim() !== '' || !PROPERTY_TYPES.has(key)) continue;
        (problems ??= []).push({ key, message: `${key} is blank; ${getFieldAdvice(key)}` });
      }
      return problems;
    },
  },
  'lint/duplicate-id': {
    severity: 'error',
    check({ id }, { file, ids }, { line, column }) {
      if (id === undefined) return undefined;
      const firstLocation = ids.get(id);
      if (firstLocation === undefined) {
        ids.set(id, { file, line, column });
        return undefined;
      }
      const { file: firstFile, ...firstPosition } = firstLocation;
      const otherFile = firstFile === file ? {} : { file: firstFile };
      const location = `${firstFile === file ? '' : `${firstFile}:`}${firstPosition.line}:${firstPosition.column}`;
      const quotedId = quoteId(id);
      const message = `the id ${quotedId} is already used by the record at ${location}; give each record its own id`;
      const related = [
        { ...otherFile, ...firstPosition, message: `first record with the id ${quotedId}` },
      ];
      return { key: 'id', message, related };
    },
  },
  // `lintInventory` creates the findings of this rule.
  'lint/ignore': { severity: 'warning', check: () => undefined },
  'lint/likely-typo': {
    severity: 'warning',
    check(fields) {
      let problems: RuleProblem[] | undefined;
      for (const key in fields) {
        if (PROPERTY_TYPES.has(key)) continue;
        const similarName = PROPERTY_TYPES.keys().find(
          (knownKey) => !Object.hasOwn(fields, knownKey) && isSimilar(key, knownKey),
        );
        if (similarName === undefined) continue;
        (problems ??= []).push({
          key,
          message: `is ${quoteText(key)} meant to be ${similarName}?`,
        });
      }
      return problems;
    },
  },
  'lint/missing-owner': {
    severity: 'warning',
    check({ owner_host: owner }) {
      const message = 'the record has no owner_host; name the machine or team that runs it';
      return owner === undefined ? { key: '', message } : undefined;
    },
  },
  'lint/port-range': {
    severity: 'error',
    check({ port }) {
      if (port === undefined || isValidPort(port)) return undefined;
      return { key: 'port', message: `port must be from 1 to 65535; found ${String(port)}` };
    },
  },
  'lint/public-without-auth': {
    severity: 'error',
    check({ exposure, auth }) {
      if (exposure !== 'public' || !isEmptyAuth(auth ?? '')) return undefined;
      const authNote = auth === undefined ? 'it has no auth' : `its auth is ${quoteText(auth)}`;
      const message = `the endpoint is public, but ${authNote}; state in auth who may use it and how, even if anyone may`;
      return { key: auth === undefined ? 'exposure' : 'auth', message };
    },
  },
  'lint/review-date': {
    severity: 'error',
    check({ last_reviewed: reviewText = '' }, { today }) {
      const key = 'last_reviewed';
      const day = parseDay(reviewText);
      if (day === null) {
        if (reviewText.trim() === '') return undefined;
        const message = `${quoteText(reviewText)} is not a date; write one as in 2026-11-20`;
        // A date that begins with the year is unambiguous, as in 2026/1/5.
        const [, year, month = '', dayOfMonth = ''] =
          /^\s*(\d{4})[-/. ](\d{1,2})[-/. ](\d{1,2})\s*$/.exec(reviewText) ?? [];
        const fixedDay = parseDay(
          `${year}-${month.padStart(2, '0')}-${dayOfMonth.padStart(2, '0')}`,
        );
        return { key, message, ...(fixedDay !== null && { fixedValue: fixedDay }) };
      }
      // Today is in UTC. Time zones east of UTC may already have the next day.
      if (day <= today || day === addDays(today, 1)) return undefined;
      const message = `${quoteText(reviewText)} is in the future, as today is ${today}; write the day of the last review`;
      return { key, message };
    },
  },
  'lint/stale-review': staleReview,
} satisfies Partial<Record<LintCode, Rule>>;
