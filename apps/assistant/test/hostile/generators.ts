import fc from 'fast-check';

/** Mark in generated values, which the log must not contain. */
export const MARK = 'zq7Mark';

/** Texts that often break parsers, queries and pages. */
const NOTORIOUS_TEXTS = [
  '',
  '\u0000',
  '\r\nset-cookie: a=b',
  '../../../../etc/passwd',
  '%00',
  "' or 1=1 --",
  '"><img src=x onerror=alert(1)>',
  '${jndi:ldap://127.0.0.1/a}',
  '__proto__',
  'constructor',
  '1e400',
  '9007199254740993',
  '\ufeff',
  '\ud83d',
  '\udc00\ud800',
  'javascript:alert(1)',
  'a'.repeat(9000),
  '😀'.repeat(500),
];

/** A well-formed session ID that does not exist. */
export const id = fc.stringMatching(/^[A-Za-z0-9_-]{43}$/);

export const text: fc.Arbitrary<string> = fc.oneof(
  fc.constantFrom(...NOTORIOUS_TEXTS),
  fc.string({ maxLength: 40 }),
  fc.string({ unit: 'grapheme', maxLength: 40 }),
  fc.string({ unit: 'binary', maxLength: 40 }),
  id,
);

export const markedText = fc
  .tuple(text, fc.boolean())
  .map(([value, isFirst]) => (isFirst ? MARK + value : value + MARK));

const BROKEN_ESCAPES = ['%', '%zz', '%u0041', '%ff%fe', '%ed%a0%80', '%00', '+'];

/** Encodes text for a URL once, twice, or incorrectly. */
export function encodeInUrl(texts: fc.Arbitrary<string>): fc.Arbitrary<string> {
  const escapedTexts = texts.map((value) => encodeURIComponent(value.toWellFormed()));
  const brokenEscapes = fc.tuple(escapedTexts, fc.constantFrom(...BROKEN_ESCAPES));
  return fc.oneof(
    { weight: 4, arbitrary: escapedTexts },
    { weight: 1, arbitrary: escapedTexts.map((value) => encodeURIComponent(value)) },
    { weight: 1, arbitrary: texts.map((value) => value.replaceAll(/[^!-~]|[?#]/gu, '-')) },
    { weight: 1, arbitrary: brokenEscapes.map((parts) => parts.join('')) },
  );
}

/** URLs that a browser may resolve to a different origin. */
const FOREIGN_URLS = [
  '/\\evil.example',
  'https:evil.example',
  'https://assistant.test@evil.example/',
  'https://assistant.test.evil.example/',
  'javascript:alert(1)',
];

/** A query string that asks for a redirect to another origin. */
export const redirectQuery: fc.Arbitrary<string> = fc
  .array(
    fc.tuple(
      fc.constantFrom('return_to', 'next', 'redirect', 'redirect_uri', 'url', 'rd'),
      encodeInUrl(fc.oneof(fc.constantFrom(...FOREIGN_URLS), text)),
    ),
    { maxLength: 4 },
  )
  .map((pairs) => pairs.map((pair) => pair.join('=')).join('&'));

/** A header value that Node's HTTP parser accepts. */
export const headerValue: fc.Arbitrary<string> = text.map((value) =>
  value.replaceAll(/[^\t\x20-\x7e\x80-\xff]/gu, '?'),
);

const HEADERS: Record<string, readonly string[]> = {
  accept: ['text/html', '*/*', ''],
  'accept-encoding': ['gzip', 'identity;q=0'],
  authorization: ['Bearer a', 'Basic YTpi'],
  'content-encoding': ['gzip'],
  'content-type': ['application/json', 'text/plain', 'application/json; charset=utf-7'],
  host: ['assistant.test', 'evil.example', '[::1]'],
  origin: ['http://assistant.test', 'https://evil.example', 'null'],
  'sec-fetch-site': ['same-origin', 'cross-site', 'none'],
  'user-agent': ['SvcAndroid/1.0', 'Mozilla/5.0 SvcAndroid/1.0 x'],
  'x-forwarded-for': ['127.0.0.1', '::1, 10.0.0.1'],
  'x-request-id': ['a', 'x'.repeat(200)],
};

/** Headers that servers evaluate, with valid and invalid values. */
export const headers: fc.Arbitrary<Record<string, string>> = fc
  .array(
    fc
      .constantFrom(...Object.entries(HEADERS))
      .chain(([name, values]) =>
        fc.tuple(fc.constant(name), fc.oneof(fc.constantFrom(...values), headerValue)),
      ),
    { maxLength: 5 },
  )
  .map((pairs) => Object.fromEntries(pairs));

/** JSON Schema with the keywords that request bodies use. */
type Schema = {
  type?: string;
  const?: unknown;
  enum?: unknown[];
  anyOf?: Schema[];
  items?: Schema;
  properties?: Record<string, Schema>;
};

const anyValue: fc.Arbitrary<unknown> = fc.oneof(fc.jsonValue({ maxDepth: 3 }), markedText);

/** Creates an arbitrary for values that usually fit a schema. */
function createValue(schema: Schema): fc.Arbitrary<unknown> {
  return fc.oneof(
    { weight: 4, arbitrary: createValidValue(schema) },
    { weight: 1, arbitrary: anyValue },
  );
}

function createValidValue(schema: Schema): fc.Arbitrary<unknown> {
  if (schema.const !== undefined) return fc.constant(schema.const);
  if (schema.enum !== undefined) return fc.constantFrom(...schema.enum);
  if (schema.anyOf !== undefined) return fc.oneof(...schema.anyOf.map(createValidValue));
  switch (schema.type) {
    case 'string':
      return markedText;
    case 'boolean':
      return fc.boolean();
    case 'integer':
    case 'number':
      return fc.oneof(fc.integer(), fc.double());
    case 'null':
      return fc.constant(null);
    case 'array':
      return fc.array(createValue(schema.items ?? {}), { maxLength: 3 });
    default: {
      const propertySchemas = Object.entries(schema.properties ?? {});
      const knownProperties = Object.fromEntries(
        propertySchemas.map(([name, propertySchema]) => [name, createValue(propertySchema)]),
      );
      const extraProperties = fc.dictionary(markedText, anyValue, { maxKeys: 1 });
      return fc
        .tuple(extraProperties, fc.record(knownProperties, { requiredKeys: [] }))
        .map(([extras, properties]) => ({ ...extras, ...properties }));
    }
  }
}

const INVALID_JSON_TEXTS = [
  '',
  '{"a":',
  '{"__proto__":{"role":"admin"}}',
  '{"constructor":{"prototype":{"role":"admin"}}}',
  '{"name":"\\ud800"}',
  '{"pinned":1e400}',
  '['.repeat(5000),
  `${'{"a":'.repeat(2000)}1${'}'.repeat(2000)}`,
];

/** Creates an arbitrary for bodies of a schema, which are usually JSON. */
export function createBody(schema: Schema): fc.Arbitrary<Buffer> {
  const json = createValue(schema).map((value) => Buffer.from(JSON.stringify(value) ?? ''));
  const invalidJson = fc.oneof(fc.constantFrom(...INVALID_JSON_TEXTS), markedText);
  const truncatedJson = fc
    .tuple(json, fc.nat())
    .map(([value, at]) => value.subarray(0, at % (value.length + 1)));
  return fc.oneof(
    { weight: 6, arbitrary: json },
    { weight: 2, arbitrary: invalidJson.map((value) => Buffer.from(value)) },
    { weight: 1, arbitrary: fc.uint8Array({ maxLength: 60 }).map((value) => Buffer.from(value)) },
    { weight: 1, arbitrary: truncatedJson },
  );
}
