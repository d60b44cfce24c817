import leven from 'leven';
import { isValidPort } from '../address.ts';
import { addDays, type Day, countDaysBetween, parseDay } from '../day.ts';
import type { LintCode, Position, RelatedPlace, Severity } from '../finding.ts';
import type { InspectedRecord } from '../read/check-record.ts';
import { type EndpointRecord, EXPOSURES, PROPERTY_TYPES, REQUIRED_KEYS } from '../record.ts';
import { quoteText, quoteId } from '../text.ts';

/** A problem of a record property. An empty key means the whole record. */
export type RuleProblem = {
  key: string;
  message: string;
  /** Correct value, if it is unambiguous. */
  fixed?: string | number;
  related?: RelatedPlace[];
};

/** Record properties of the type that the schema requires. */
export type TypedFields = Readonly<Partial<EndpointRecord>>;

/** First position of each id in the inventories of one run. */
export type SeenIds = Map<string, { file: string } & Position>;

/** Context that the rules share for one inventory. */
export type RuleContext = {
  today: Day;
  /** Label of the inventory. */
  file: string;
  ids: SeenIds;
};

/** A lint rule. */
export type Rule<Options = unknown> = {
  code: LintCode;
  severity: Severity;
  /** JSON Schemas (draft 2020-12) of the options in inventory.config.json, by name. */
  options?: Readonly<Record<string, object>>;
  defaults?: Options;
  /** Creates the check for one inventory. The check is called with each record in order. */
  create(
    context: RuleContext,
    options: Options,
  ): (fields: TypedFields, record: InspectedRecord) => readonly RuleProblem[];
};

/** Returns the extra properties of a record, and the properties of the type that the schema requires. */
export function getTypedFields(value: object): TypedFields {
  // No prototype, because a record may have keys such as `toString`.
  const fields: Record<string, unknown> = Object.create(null);
  for (const [key, part] of Object.entries(value)) {
    const type = PROPERTY_TYPES.get(key);
    const hasType = type === 'integer' ? Number.isInteger(part) : typeof part === type;
    if (type === undefined || hasType) fields[key] = part;
  }
  return fields;
}

const NONE: readonly RuleProblem[] = [];

const blankField: Rule = {
  code: 'lint/blank-field',
  severity: 'warning',
  create: () => (fields) => {
    const found: RuleProblem[] = [];
    // Fields inherit no enumerable properties, and `for…in` is the fastest iteration.
    for (const key in fields) {
      const value = fields[key];
      if (typeof value !== 'string' || value.trim() !== '' || !PROPERTY_TYPES.has(key)) continue;
      found.push({ key, message: `${key} is blank; ${getFieldAdvice(key)}` });
    }
    return found;
  },
};

function getFieldAdvice(key: string): string {
  if (key === 'owner_host') return 'name the machine or team that runs it';
  if (key === 'last_reviewed') return 'write the day of the last review, as in 2026-11-20';
  return REQUIRED_KEYS.has(key) ? 'it is required: fill it in' : 'fill it in, or omit the property';
}

const duplicateId: Rule = {
  code: 'lint/duplicate-id',
  severity: 'error',
  create:
    ({ file, ids }) =>
    ({ id }, { position: { line, column } }) => {
      if (id === undefined) return NONE;
      const first = ids.get(id);
      if (first === undefined) {
        ids.set(id, { file, line, column });
        return NONE;
      }
      const { file: firstFile, ...place } = first;
      const other = firstFile === file ? {} : { file: firstFile };
      const where = `${other.file === undefined ? '' : `${firstFile}:`}${place.line}:${place.column}`;
      const name = quoteId(id);
      return [
        {
          key: 'id',
          message: `the id ${name} is already used by the record at ${where}; give each record its own id`,
          related: [{ ...other, ...place, message: `first record with the id ${name}` }],
        },
      ];
    },
};

/** Placeholder for the rule about `lint_ignore`, whose findings `lintInventory` creates. */
const ignore: Rule = { code: 'lint/ignore', severity: 'warning', create: () => () => NONE };

const likelyTypo: Rule = {
  code: 'lint/likely-typo',
  severity: 'warning',
  create: () => (fields) => {
    const found: RuleProblem[] = [];
    for (const key in fields) {
      if (PROPERTY_TYPES.has(key)) continue;
      const meant = PROPERTY_TYPES.keys().find(
        (known) => !Object.hasOwn(fields, known) && isSimilar(key, known),
      );
      if (meant !== undefined) {
        found.push({ key, message: `is ${quoteText(key)} meant to be ${meant}?` });
      }
    }
    return found;
  },
};

function isSimilar(key: string, known: string): boolean {
  const { length } = normalizeName(known);
  // One letter changes the meaning of a short name, as in host and post.
  const maxDistance = length < 5 ? 0 : length < 9 ? 1 : 2;
  return (
    leven(normalizeName(key), normalizeName(known), { maxDistance: maxDistance + 1 }) <= maxDistance
  );
}

function normalizeName(name: string): string {
  return name.toLowerCase().replaceAll(/[-_\s]/g, '');
}

const missingOwner: Rule = {
  code: 'lint/missing-owner',
  severity: 'warning',
  create:
    () =>
    ({ owner_host: owner }) => {
      const message = 'the record has no owner_host; name the machine or team that runs it';
      return owner === undefined ? [{ key: '', message }] : NONE;
    },
};

const portRange: Rule = {
  code: 'lint/port-range',
  severity: 'error',
  create:
    () =>
    ({ port }) =>
      port === undefined || isValidPort(port)
        ? NONE
        : [{ key: 'port', message: `port must be from 1 to 65535; found ${String(port)}` }],
};

/** Lower-case values of `auth` without information. `open` and `anonymous` are informative. */
export const EMPTY_AUTH_VALUES: ReadonlySet<string> = new Set(
  `none, no, nothing, nil, n/a, n.a, na, not applicable, off, disabled, false, no auth,
  no authentication, without auth, without authentication, unauthenticated, unknown, not known,
  unclear, null, undefined, tbd, tba, todo, to do, to be defined, to be determined, fixme,
  немає, нема, ні, без автентифікації, невідомо`.split(/,\s+/),
);

const MAX_EMPTY_AUTH_CHARACTERS = 60;
/** Leading and trailing punctuation, as in `(none)`, `-` or `???`. */
const PUNCTUATION = /^[\s\p{P}<>~=]+|[\s\p{P}<>~=]+$/gu;

const publicWithoutAuth: Rule = {
  code: 'lint/public-without-auth',
  severity: 'error',
  create:
    () =>
    ({ exposure, auth }) => {
      if (exposure !== 'public' || !isEmptyAuth(auth ?? '')) return NONE;
      const found = auth === undefined ? 'it has no auth' : `its auth is ${quoteText(auth)}`;
      const message = `the endpoint is public, but ${found}; state in auth who may use it and how, even if anyone may`;
      return [{ key: auth === undefined ? 'exposure' : 'auth', message }];
    },
};

function isEmptyAuth(auth: string): boolean {
  const text = auth.trim();
  if (text.length > MAX_EMPTY_AUTH_CHARACTERS) return false;
  const plain = text.replaceAll(PUNCTUATION, '').replaceAll(/[\s_-]+/g, ' ');
  return plain === '' || EMPTY_AUTH_VALUES.has(plain.toLowerCase());
}

const reviewDate: Rule = {
  code: 'lint/review-date',
  severity: 'error',
  create({ today }) {
    // Today is in UTC. Time zones east of UTC may already have the next day.
    const tomorrow = addDays(today, 1);
    return ({ last_reviewed: written = '' }: TypedFields) => {
      const day = parseDay(written);
      if (day === null ? written.trim() === '' : day <= tomorrow) return NONE;
      if (day !== null) {
        const message = `${quoteText(written)} is in the future, as today is ${today}; write the day of the last review`;
        return [{ key: 'last_reviewed', message }];
      }
      const message = `${quoteText(written)} is not a date; write one as in 2026-11-20`;
      // A date that begins with the year is unambiguous, as in 2026/1/5.
      const [, year, month = '', dayOfMonth = ''] =
        /^\s*(\d{4})[-/. ](\d{1,2})[-/. ](\d{1,2})\s*$/.exec(written) ?? [];
      const fixed = parseDay(`${year}-${month.padStart(2, '0')}-${dayOfMonth.padStart(2, '0')}`);
      return [{ key: 'last_reviewed', message, ...(fixed !== null && { fixed }) }];
    };
  },
};

type StaleOptions = {
  /** Maximum age of a review in days. */
  days: number;
  days_by_exposure: Partial<Record<EndpointRecord['exposure'], number>>;
};

const DAYS = { type: 'integer', minimum: 1 };
/** Limit for date arithmetic. A larger number of days may lead outside the range of dates. */
const MAX_EXACT_DAYS = 36_500;

const staleReview: Rule<StaleOptions> = {
  code: 'lint/stale-review',
  severity: 'warning',
  defaults: { days: 365, days_by_exposure: {} },
  options: {
    days: DAYS,
    days_by_exposure: {
      type: 'object',
      properties: Object.fromEntries(EXPOSURES.map((exposure) => [exposure, DAYS])),
      additionalProperties: false,
    },
  },
  create({ today }, { days, days_by_exposure: byExposure }) {
    const oldest = addDays(today, -Math.min(days, ...Object.values(byExposure), MAX_EXACT_DAYS));
    return ({ last_reviewed: written, exposure }) => {
      const day = written === undefined ? null : parseDay(written);
      if (day === null || day >= oldest) return NONE;
      const age = countDaysBetween(day, today);
      const limit = (exposure === undefined ? undefined : byExposure[exposure]) ?? days;
      if (age <= limit) return NONE;
      const message = `the last review was ${age} days ago, and the limit is ${limit}; review the endpoint and update the date`;
      return [{ key: 'last_reviewed', message }];
    };
  },
};

/** Rules for single properties and for the ids of all records. */
export const recordRules: readonly Rule[] = [
  blankField,
  duplicateId,
  ignore,
  likelyTypo,
  missingOwner,
  portRange,
  publicWithoutAuth,
  reviewDate,
  staleReview,
];
