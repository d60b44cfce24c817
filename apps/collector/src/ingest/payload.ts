import { createValidatorCompiler, describeErrors } from '@oselya/kit';
import { type Static, Type } from 'typebox';
import { PAYLOAD_FIELDS, FIELDS, payloadFieldSchemas, createUrlSchema } from '../listing/fields.ts';
import { problem } from '../errors.ts';
import { MAX_BODY_BYTES, MAX_IMAGES, sourceSlugSchema } from '../schemas.ts';
import { normalizeText, toPlainText, sha256 } from '../text.ts';

/** Strict schema of a payload. Contract 4, PayloadSchema. */
export const PayloadSchema = Type.Object(
  {
    source_slug: sourceSlugSchema,
    external_id: Type.String({
      minLength: 1,
      maxLength: 200,
      pattern: '\\S',
      description: 'ID of the listing at its source.',
    }),
    ...payloadFieldSchemas,
    image_urls: Type.Optional(
      Type.Array(createUrlSchema('URL of an image.'), { maxItems: MAX_IMAGES }),
    ),
  },
  {
    $id: 'PayloadSchema',
    additionalProperties: false,
    examples: [
      {
        source_slug: 'my-notes',
        external_id: '1',
        description: 'Здам 2-к кв на Сихові, 5/9 эт., 60/40/9, євроремонт. 15 тис. грн + комуналка',
      },
    ],
  },
);

/** Payload that satisfies the schema. `checkValues` checks further rules. */
export type Payload = Static<typeof PayloadSchema>;

/** Description of a violated rule, and the path of the invalid value. */
type PayloadViolation = { path: string; message: string };

const validate = createValidatorCompiler()({
  schema: PayloadSchema,
  method: 'POST',
  url: '/ingest',
  httpPart: 'body',
});

/** Checks a value against the rules of `POST /ingest`, and returns the violations. Contract 4, PayloadSchema. */
export function checkPayload(payload: unknown): PayloadViolation[] {
  const violations = findViolations(payload, 'body');
  if (violations.length === 0 && Buffer.byteLength(JSON.stringify(payload)) > MAX_BODY_BYTES) {
    violations.push({
      path: 'body',
      message: `must be at most ${MAX_BODY_BYTES / 1024} KiB of JSON`,
    });
  }
  return violations;
}

/**
 * Validates a value and returns it as a payload.
 * @param path Path of the value, for errors.
 * @throws ProblemError `validation_failed`, with the violations.
 */
export function requirePayload(value: unknown, path: string): Payload {
  const errors = findViolations(value, path);
  if (errors.length > 0) throw problem('validation_failed', { errors });
  return value as Payload;
}

/**
 * Checks the rules that the schema of a payload cannot express.
 * @throws ProblemError `validation_failed`, with the violations.
 */
export function checkValues(payload: Payload, path = 'body'): void {
  const errors = findValueViolations(payload, path);
  if (errors.length > 0) throw problem('validation_failed', { errors });
}

function findViolations(value: unknown, path: string): PayloadViolation[] {
  return validate(value) === true
    ? findValueViolations(value as Payload, path)
    : describeErrors(path, validate.errors ?? []);
}

const MAX_DEPTH = 32;
const MAX_ATTRIBUTES_BYTES = 64 * 1024;

const CURRENCIES = new Set(Intl.supportedValuesOf('currency'));

function findValueViolations(payload: Payload, path: string): PayloadViolation[] {
  const errors = findUnstorableValues(payload, path);
  // The serialization of a value that is nested too deeply would overflow the stack.
  if (errors.length > 0) return errors;
  if (Buffer.byteLength(JSON.stringify(payload.attributes ?? {})) > MAX_ATTRIBUTES_BYTES) {
    errors.push({ path: `${path}/attributes`, message: 'must be at most 64 KiB of JSON' });
  }
  if (!hasWord(payload.description)) {
    errors.push({ path: `${path}/description`, message: 'must have a letter or a digit' });
  }
  if (payload.published_at !== undefined && !hasStorableYear(payload.published_at)) {
    const message = 'must be a time of RFC 3339 between the years 1000 and 9999';
    errors.push({ path: `${path}/published_at`, message });
  }
  if (payload.currency !== undefined && !CURRENCIES.has(payload.currency)) {
    errors.push({ path: `${path}/currency`, message: 'must be a currency code of ISO 4217' });
  }
  return errors;
}

/** Pattern that matches nearly every description, so that few need the slow normalization. */
const PLAIN_CHARACTER_PATTERN = /[0-9a-zа-я]/i;

function hasWord(text: string): boolean {
  return PLAIN_CHARACTER_PATTERN.test(text) || normalizeText(text) !== '';
}

/** Finds texts and numbers that PostgreSQL cannot store, or a value that is nested too deeply. */
function findUnstorableValues(payload: Payload, root: string): PayloadViolation[] {
  const errors: PayloadViolation[] = [];
  let isTooDeep = false;

  function visit(value: unknown, path: string, depth: number): void {
    if (typeof value === 'string') {
      const message = findTextViolation(value);
      if (message !== undefined) errors.push({ path, message });
    } else if (typeof value === 'number') {
      if (!Number.isFinite(value)) errors.push({ path, message: 'must be a finite number' });
    } else if (typeof value === 'object' && value !== null) {
      if (depth > MAX_DEPTH) {
        isTooDeep = true;
        return;
      }
      for (const [key, innerValue] of Object.entries(value)) {
        const message = findTextViolation(key);
        if (message !== undefined) errors.push({ path, message: `a key ${message}` });
        visit(innerValue, `${path}/${key}`, depth + 1);
      }
    }
  }

  visit(payload, root, 0);
  return isTooDeep
    ? [{ path: `${root}/attributes`, message: `must be at most ${MAX_DEPTH} levels deep` }]
    : errors;
}

function hasStorableYear(time: string): boolean {
  const year = parseTime(time).getUTCFullYear();
  return year >= 1000 && year <= 9999;
}

function findTextViolation(text: string): string | undefined {
  if (text.includes('\0')) return 'must not contain NUL characters';
  if (!text.isWellFormed()) return 'must not contain a lone surrogate';
  return undefined;
}

const LEAP_SECOND_PATTERN = /:60(?=[.Zz+-])/;

/** Parses an RFC 3339 timestamp. A leap second becomes the preceding second, because `Date` has no leap seconds. */
export function parseTime(text: string): Date {
  return new Date(text.replace(LEAP_SECOND_PATTERN, ':59'));
}

/** Returns whether an RFC 3339 timestamp is a leap second. */
export function isLeapSecond(text: string): boolean {
  return LEAP_SECOND_PATTERN.test(text);
}

/** Returns a copy of a payload whose text and list fields are converted from HTML to plain text. */
export function toPlainPayload(payload: Payload): Payload {
  const plainPayload: Record<string, unknown> = { ...payload };
  for (const name of PAYLOAD_FIELDS) {
    const value = payload[name];
    if (FIELDS[name].kind === 'text' && typeof value === 'string')
      plainPayload[name] = toPlainText(value);
    if (Array.isArray(value)) plainPayload[name] = value.map(toPlainText);
  }
  return plainPayload as Payload;
}

const SORTED_FIELDS = (
  Object.keys(PayloadSchema.properties) as (keyof typeof PayloadSchema.properties)[]
).toSorted();

/** Serializes a payload as canonical JSON, with sorted keys. */
export function serializePayload(payload: Payload): string {
  // Only the keys of free objects need sorting.
  const sortedPayload: Record<string, unknown> = {};
  for (const name of SORTED_FIELDS) {
    if (payload[name] !== undefined) sortedPayload[name] = sortKeys(payload[name]);
  }
  return JSON.stringify(sortedPayload);
}

/** Returns the SHA-256, in hexadecimal, of a value's canonical JSON. */
export function hashContent(value: unknown): string {
  return sha256(JSON.stringify(sortKeys(value)));
}

function sortKeys(value: unknown): unknown {
  if (typeof value !== 'object' || value === null) return value;
  if (Array.isArray(value)) return value.map(sortKeys);
  // An assignment to the key `__proto__` would replace the prototype; `fromEntries` does not.
  return Object.fromEntries(
    Object.entries(value)
      .toSorted(([firstKey], [secondKey]) => (firstKey < secondKey ? -1 : 1))
      .map(([key, innerValue]) => [key, sortKeys(innerValue)]),
  );
}
