import fc from 'fast-check';

/** Part of generated values that the log must not contain. */
export const MARK = 'zq7Mark';

/** Texts that often break parsers, queries and pages. */
const NOTORIOUS = [
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

/** A well-formed session id that does not exist. */
export const id = fc.stringMatching(/^[A-Za-z0-9_-]{43}$/);

/** Any text. */
export const text: fc.Arbitrary<string> = fc.oneof(
  fc.constantFrom(...NOTORIOUS),
  fc.string({ maxLength: 40 }),
  fc.string({ unit: 'grapheme', maxLength: 40 }),
  fc.string({ unit: 'binary', maxLength: 40 }),
  id,
);

/** Text with the mark. */
export const markedText = fc
  .tuple(text, fc.boolean())
  .map(([value, isFirst]) => (isFirst ? MARK + value : value + MARK));

const BROKEN_ESCAPES = ['%', '%zz', '%u0041', '%ff%fe', '%ed%a0%80', '%00', '+'];

/** Encodes a text for a URL: once, twice, or wrongly. */
export function encodeInUrl(value: fc.Arbitrary<string>): fc.Arbitrary<string> {
  const escaped = value.map((one) => encodeURIComponent(one.toWellFormed()));
  const broken = fc.tuple(escaped, fc.constantFrom(...BROKEN_ESCAPES));
  return fc.oneof(
    { weight: 4, arbitrary: escaped },
    { weight: 1, arbitrary: escaped.map((one) => encodeURIComponent(one)) },
    { weight: 1, arbitrary: value.map((one) => one.replaceAll(/[^!-~]|[?#]/gu, '-')) },
    { weight: 1, arbitrary: broken.map((parts) => parts.join('')) },
  );
}

/** URLs that a browser may resolve to another origin. */
const FOREIGN = [
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
      encodeInUrl(fc.oneof(fc.constantFrom(...FOREIGN), text)),
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

/** The keywords of JSON Schema that request bodies use. */
type Schema = {
  type?: string;
  const?: unknown;
  enum?: unknown[];
  anyOf?: Schema[];
  items?: Schema;
  properties?: Record<string, Schema>;
};

const anyValue: fc.Arbitrary<unknown> = fc.oneof(fc.jsonValue({ maxDepth: 3 }), markedText);

/** Creates a value that usually fits a schema. */
export function valueFor(schema: Schema): fc.Arbitrary<unknown> {
  return fc.oneof({ weight: 4, arbitrary: validFor(schema) }, { weight: 1, arbitrary: anyValue });
}

function validFor(schema: Schema): fc.Arbitrary<unknown> {
  if (schema.const !== undefined) return fc.constant(schema.const);
  if (schema.enum !== undefined) return fc.constantFrom(...schema.enum);
  if (schema.anyOf !== undefined) return fc.oneof(...schema.anyOf.map(validFor));
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
      return fc.array(valueFor(schema.items ?? {}), { maxLength: 3 });
    default: {
      const properties = Object.entries(schema.properties ?? {});
      const known = Object.fromEntries(properties.map(([name, one]) => [name, valueFor(one)]));
      const unknown = fc.dictionary(markedText, anyValue, { maxKeys: 1 });
      return fc
        .tuple(unknown, fc.record(known, { requiredKeys: [] }))
        .map(([some, others]) => ({ ...some, ...others }));
    }
  }
}

const NOT_JSON = [
  '',
  '{"a":',
  '{"__proto__":{"role":"admin"}}',
  '{"constructor":{"prototype":{"role":"admin"}}}',
  '{"name":"\\ud800"}',
  '{"pinned":1e400}',
  '['.repeat(5000),
  `${'{"a":'.repeat(2000)}1${'}'.repeat(2000)}`,
];

/** Creates a body for a schema, usually JSON. */
export function bodyFor(schema: Schema): fc.Arbitrary<Buffer> {
  const json = valueFor(schema).map((value) => Buffer.from(JSON.stringify(value) ?? ''));
  const other = fc.oneof(fc.constantFrom(...NOT_JSON), markedText);
  const cut = fc.tuple(json, fc.nat()).map(([one, at]) => one.subarray(0, at % (one.length + 1)));
  return fc.oneof(
    { weight: 6, arbitrary: json },
    { weight: 2, arbitrary: other.map((one) => Buffer.from(one)) },
    { weight: 1, arbitrary: fc.uint8Array({ maxLength: 60 }).map((one) => Buffer.from(one)) },
    { weight: 1, arbitrary: cut },
  );
}
