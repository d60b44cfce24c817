import assert from 'node:assert/strict';
import fc from 'fast-check';

/** Stands in every secret-like value that is made up here, so that a log that shows one can be told. */
export const MARK = 'zq7Mark';

/** Texts that broke something somewhere. */
const NOTORIOUS = [
  '',
  ' ',
  '\u0000',
  'a\u0000b',
  '\r\nset-cookie: a=b',
  '../../../../etc/passwd',
  '..\\..\\windows\\win.ini',
  '%2e%2e%2f',
  '%00',
  '%',
  "' or 1=1 --",
  '"; drop table svc_users; --',
  '<script>alert(1)</script>',
  '"><img src=x onerror=alert(1)>',
  '${jndi:ldap://127.0.0.1/a}',
  '{{7*7}}',
  '$(id)',
  '__proto__',
  'constructor',
  'toString',
  'null',
  'undefined',
  'NaN',
  '-1',
  '1e400',
  '9007199254740993',
  'true',
  '[]',
  '{}',
  '\ufeff',
  '\u202e\u2066',
  'ﷺ'.repeat(20),
  '\ud83d',
  '\udc00\ud800',
  'İıſK',
  '//evil.example',
  '\\\\evil.example',
  'https://evil.example/',
  'javascript:alert(1)',
  'a'.repeat(9000),
  '😀'.repeat(500),
];

/** The shape of an id of this service, whose value it cannot know. */
export const id = fc.stringMatching(/^[A-Za-z0-9_-]{43}$/);

/** Any text, most of it short. */
export const text: fc.Arbitrary<string> = fc.oneof(
  fc.constantFrom(...NOTORIOUS),
  fc.string({ maxLength: 40 }),
  fc.string({ unit: 'grapheme', maxLength: 40 }),
  fc.string({ unit: 'binary', maxLength: 40 }),
  fc.base64String({ maxLength: 60 }),
  id,
);

/** Any text that can be told when it turns up where it must not. */
export const marked = fc
  .tuple(text, fc.constantFrom('first', 'last'))
  .map(([value, place]) => (place === 'first' ? MARK + value : value + MARK));

/** Beginnings of byte sequences and escapes that lead nowhere. */
const BROKEN_ESCAPES = [
  '%',
  '%z',
  '%zz',
  '%u0041',
  '%ff%fe',
  '%c3%28',
  '%ed%a0%80',
  '%00',
  '%2',
  '+',
];

/** A text as it stands in an address: escaped, escaped twice, or as it should not be. */
export function inAddress(value: fc.Arbitrary<string>): fc.Arbitrary<string> {
  const escaped = value.map((one) => encodeURIComponent(one.toWellFormed()));
  return fc.oneof(
    { weight: 4, arbitrary: escaped },
    { weight: 1, arbitrary: escaped.map((one) => encodeURIComponent(one)) },
    { weight: 1, arbitrary: value.map((one) => one.replaceAll(/[^!-~]|[?#]/gu, '-')) },
    {
      weight: 1,
      arbitrary: fc
        .tuple(escaped, fc.constantFrom(...BROKEN_ESCAPES))
        .map(([one, broken]) => one + broken),
    },
  );
}

/** Parameters that return targets have had somewhere. */
const RETURN_PARAMETERS = [
  'return_to',
  'returnTo',
  'next',
  'redirect',
  'redirect_uri',
  'redirect_to',
  'url',
  'target',
  'continue',
  'rd',
  'platform',
];

/** Addresses that a browser could take for another origin's. */
const ELSEWHERE = [
  '//evil.example',
  '///evil.example',
  '/\\evil.example',
  '\\\\evil.example',
  '/\t/evil.example',
  '/%0a/evil.example',
  'https:evil.example',
  'https://evil.example',
  'https://assistant.test@evil.example/',
  'https://assistant.test.evil.example/',
  'http://assistant.test:80@evil.example',
  'data:text/html,evil',
  'javascript:alert(1)',
  '/auth/mobile-done?sid=#@evil.example',
  '.evil.example',
  '@evil.example',
];

/** A query string that asks to be sent elsewhere, and a fragment that should. */
export const luringQuery: fc.Arbitrary<string> = fc
  .tuple(
    fc.array(
      fc.tuple(
        fc.oneof(fc.constantFrom(...RETURN_PARAMETERS), inAddress(text)),
        inAddress(fc.oneof(fc.constantFrom(...ELSEWHERE), text)),
      ),
      { maxLength: 4 },
    ),
    fc.constantFrom('', '#', '#//evil.example', '#access_token=a', '#/../evil'),
  )
  .map(
    ([pairs, fragment]) => pairs.map(([name, value]) => `${name}=${value}`).join('&') + fragment,
  );

/** What Node's HTTP parser lets through as the value of a header. */
const headerUnit = fc
  .oneof(
    { weight: 6, arbitrary: fc.integer({ min: 0x20, max: 0x7e }) },
    { weight: 1, arbitrary: fc.integer({ min: 0x80, max: 0xff }) },
    { weight: 1, arbitrary: fc.constant(0x09) },
  )
  .map((code) => String.fromCharCode(code));

/** The value of a header, which is bytes. */
export const headerValue: fc.Arbitrary<string> = fc.oneof(
  fc.string({ unit: headerUnit, maxLength: 60 }),
  text.map((value) => value.replaceAll(/[^\t\x20-\x7e\x80-\xff]/gu, '?')),
);

/** Headers that servers act on, with values that make sense and values that do not. */
const MEANINGFUL_HEADERS: Record<string, readonly string[]> = {
  accept: ['text/html', 'application/json', '*/*', ''],
  'accept-encoding': ['gzip', 'br, *;q=0', 'identity;q=0'],
  authorization: ['Bearer a', 'Basic YTpi'],
  'content-encoding': ['gzip'],
  'content-type': [
    'application/json',
    'text/plain',
    'application/json; charset=utf-7',
    'multipart/form-data',
  ],
  host: ['assistant.test', 'evil.example', 'localhost:1', '[::1]'],
  'if-none-match': ['*', '"a"'],
  origin: ['http://assistant.test', 'https://evil.example', 'null'],
  range: ['bytes=0-', 'bytes=-1,0-0', 'bytes=9-1'],
  referer: ['https://evil.example/'],
  'sec-fetch-site': ['same-origin', 'cross-site', 'none'],
  'user-agent': ['SvcAndroid/1.0', 'Mozilla/5.0 SvcAndroid/1.0 x', 'SvcAndroid/1.00'],
  'x-forwarded-for': ['127.0.0.1', '::1, 10.0.0.1'],
  'x-forwarded-host': ['evil.example'],
  'x-forwarded-proto': ['https', 'javascript'],
  'x-http-method-override': ['DELETE'],
  'x-request-id': ['a', 'a b', 'x'.repeat(200)],
};

/** Some headers. */
export const headers: fc.Arbitrary<Record<string, string>> = fc
  .array(
    fc
      .constantFrom(...Object.entries(MEANINGFUL_HEADERS))
      .chain(([name, values]) =>
        fc.oneof(fc.constantFrom(...values), headerValue).map((value) => [name, value] as const),
      ),
    { maxLength: 5 },
  )
  .map((pairs) => Object.fromEntries(pairs));

/** Ids, tokens, states, codes and keys are runs of these characters, and long. */
const RUN = /[\w-]{32,}/g;

/** What must not be shown, and where it was looked for. */
export type Secrets = ReturnType<typeof createSecrets>;

/**
 * Keeps what must be shown to nobody: tokens, ids of sessions, states, verifiers, keys.
 * @param fixed Secrets of whatever characters.
 * @param issued Grows with the tokens that the provider gives.
 */
export function createSecrets({
  fixed,
  issued,
}: {
  fixed: readonly string[];
  issued: readonly string[];
}) {
  const runs = new Set<string>();
  let known = 0;

  function find(content: string): string | undefined {
    for (; known < issued.length; known += 1) runs.add(issued[known] ?? '');
    const run = content.match(RUN)?.find((one) => runs.has(one));
    return run ?? fixed.find((one) => content.includes(one));
  }

  return {
    /** Adds an id, a state or the like. */
    add: (secret: string) => void runs.add(secret),
    /** Fails where an answer shows a secret. */
    checkAnswer(content: string): void {
      const shown = find(content);
      assert.equal(shown, undefined, `an answer shows ${shown}: ${content}`);
    },
    /** Fails where a line of the log shows a secret, or what was sent as one; or tells of a failure. */
    checkLog(line: string): void {
      const shown = line.includes(MARK) ? MARK : find(line);
      assert.equal(shown, undefined, `the log shows ${shown}: ${line}`);
      assert.doesNotMatch(line, /"level":"(error|fatal)"/);
    },
  };
}

/** The keywords of JSON Schema that request bodies here use. */
type Schema = {
  type?: string;
  const?: unknown;
  enum?: unknown[];
  anyOf?: Schema[];
  items?: Schema;
  properties?: Record<string, Schema>;
};

/** Values of every kind that JSON has, small and deep. */
const anyValue: fc.Arbitrary<unknown> = fc.oneof(
  fc.jsonValue({ maxDepth: 3 }),
  marked,
  fc.constantFrom(null, true, 0, -1, 1.5, 1e308, [], {}, '', [[[[[[]]]]]]),
);

/** Values that a schema may well take, each member of which may also be something else. */
export function valueFor(schema: Schema): fc.Arbitrary<unknown> {
  return fc.oneof({ weight: 4, arbitrary: likely(schema) }, { weight: 1, arbitrary: anyValue });
}

function likely(schema: Schema): fc.Arbitrary<unknown> {
  if (schema.const !== undefined) return fc.constant(schema.const);
  if (schema.enum !== undefined) return fc.constantFrom(...schema.enum);
  if (schema.anyOf !== undefined) return fc.oneof(...schema.anyOf.map(likely));
  switch (schema.type) {
    case 'string':
      return marked;
    case 'boolean':
      return fc.boolean();
    case 'integer':
    case 'number':
      return fc.oneof(fc.integer(), fc.double());
    case 'null':
      return fc.constant(null);
    case 'array':
      return fc.array(valueFor(schema.items ?? {}), { maxLength: 3 });
    default:
      return members(schema.properties ?? {});
  }
}

/** Some of the members, and some that nobody knows. */
function members(properties: Record<string, Schema>): fc.Arbitrary<unknown> {
  const known = fc.record(
    Object.fromEntries(Object.entries(properties).map(([name, one]) => [name, valueFor(one)])),
    { requiredKeys: [] },
  );
  const unknown = fc.dictionary(marked, anyValue, { maxKeys: 2 });
  return fc.oneof(
    { weight: 4, arbitrary: known },
    {
      weight: 1,
      arbitrary: fc.tuple(known, unknown).map(([one, other]) => ({ ...other, ...one })),
    },
  );
}

/** Texts that are no JSON, or hardly. */
const NOT_JSON = [
  '',
  ' ',
  '{',
  '{"a":',
  '[1,]',
  '{"a":1}{"a":2}',
  "{'a':1}",
  '\ufeff{}',
  '{"__proto__":{"role":"admin"}}',
  '{"constructor":{"prototype":{"role":"admin"}}}',
  '{"name":"a","name":"b"}',
  '{"name":"\\ud800"}',
  '{"name":"\\u0000"}',
  '{"pinned":1e400}',
  '['.repeat(5000),
  `${'{"a":'.repeat(2000)}1${'}'.repeat(2000)}`,
  'null',
  '"text"',
  'NaN',
];

/** The bytes of a body for a schema: JSON most of the time. */
export function bodyFor(schema: Schema): fc.Arbitrary<Buffer> {
  const json = valueFor(schema).map((value) => Buffer.from(JSON.stringify(value) ?? ''));
  return fc.oneof(
    { weight: 6, arbitrary: json },
    { weight: 1, arbitrary: fc.constantFrom(...NOT_JSON).map((one) => Buffer.from(one)) },
    { weight: 1, arbitrary: marked.map((one) => Buffer.from(one)) },
    { weight: 1, arbitrary: fc.uint8Array({ maxLength: 60 }).map((one) => Buffer.from(one)) },
    {
      weight: 1,
      arbitrary: fc
        .tuple(json, fc.nat())
        .map(([one, at]) => one.subarray(0, at % (one.length + 1))),
    },
  );
}
