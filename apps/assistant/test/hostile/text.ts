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
