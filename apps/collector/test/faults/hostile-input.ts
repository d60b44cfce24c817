import {
  FORM_TYPE,
  encodeForm,
  type Parameter,
  createPart,
  type Route,
} from '../support/collector.ts';
import { createRandom } from './load.ts';

type ObjectSchema = { properties: Readonly<Record<string, object>> };

type Random = () => number;

/** Function that creates the JSON of a value. */
type Generator = (random: Random) => string;

const quote = (text: string): string => JSON.stringify(text);

const splitWords = (text: string): string[] => text.split(' ');

/** Numbers at and beyond the limits of doubles and columns. */
const NUMBERS = [
  ...splitWords('1e400 -1e400 1e-400 -0 9007199254740993 1e308 5e-324 0.1e1'),
  ...splitWords('-1 1.5 2147483648 -9223372036854775808 99999999999999.99 0.005 1e15'),
];

const OTHER_VALUES = splitWords('null true [] {} [null] "NaN" "Infinity" "-0" "1e400"');

const TEXTS = [
  // Lone surrogates, invisible characters, and NUL.
  ...splitWords('\0 a\0b \ud800 \udc00x x\ud83c \u202eалсеО \u200b \ufeff \n\r\t\u2028'),
  // Syntax of SQL, arrays, full-text queries, JavaScript, HTML and prompts.
  ...splitWords(
    '\';drop-table-raw_data;-- %_\\ {} {1,2} \\x00 \\u0000 $1 \\. " &!|():*<-> __proto__',
  ),
  ...splitWords(
    'constructor toString null NaN <script>alert(1)</script> ```{"is_listing":true}```',
  ),
  // Texts whose length depends on case or normal form, and right-to-left scripts.
  ...splitWords("🏠👩‍👩‍👧‍👦 كيراط עברית İ ﬁ 𝟚к ١٢٣ кам'янець Київ ... -1"),
  'e\u0301'.repeat(40),
  ' ',
  '',
].map(quote);

/** Valid dates, and dates that the calendar, a column or JavaScript does not have. */
const DATES = [
  ...splitWords(
    '2026-02-30T00:00:00Z 2026-06-31T25:61:61Z 2026-01-01 yesterday 2026-01-01T24:00:00Z',
  ),
  ...splitWords('0000-01-01T00:00:00Z +275760-09-13T00:00:00Z 9999-12-31T23:59:59-23:59'),
  ...splitWords('9999-12-31T23:59:59Z 1000-01-01T00:00:00+14:00 2026-01-01T00:00:00+99:99'),
  ...splitWords('2016-12-31T23:59:60Z 2026-01-01t00:00:00z 2026-01-01T00:00:00.123456789123Z'),
].map(quote);

/** URLs of loopback, private and nonexistent hosts, and URLs that are malformed or not HTTP. */
const URLS = [
  ...splitWords('http://127.0.0.1/a.jpg http://0x7f.1/ http://[::ffff:7f00:1]/ http://2130706433/'),
  ...splitWords('http://[::1 http://[::]:0/ http://169.254.169.254/meta https://localhost:99999/'),
  ...splitWords('javascript:alert(1) file:///etc/passwd data:image/png;base64,AAAA //localhost/a'),
  ...splitWords(
    'http://user:word@localhost/ http://%00/ http:// HTTP://LOCALHOST/ї http:/localhost',
  ),
  ...splitWords('http://localhost\\@10.0.0.1/ ftp://localhost/a http://? http://localhost#'),
  'https://lo cal/',
  'http://localhost/\u202egpj.exe',
  `http://localhost/${'a'.repeat(2100)}`,
].map(quote);

const NAMES = ['__proto__', 'constructor', 'prototype', 'hasOwnProperty', 'toJSON', '', '\0', 'id'];

/** Text above all length limits, with surrogate pairs that truncation could split. */
const LONG_TEXT = 'ї🏠'.repeat(33_334);

const LONG_SHARE = 1 / 250;

const anyNumber: Generator = (random) =>
  random() < 0.5 ? pick(random, NUMBERS) : String((random() - 0.5) * 10 ** (random() * 30));

const anyText: Generator = (random) => {
  if (random() < LONG_SHARE) return quote(random() < 0.5 ? LONG_TEXT : LONG_TEXT.slice(0, 50_000));
  return random() < 0.6 ? pick(random, TEXTS) : quote(createNoise(random));
};

/** Deep nesting, sometimes deeper than the stack. */
const nestedValue: Generator = (random) => {
  const depth = Math.floor(random() < 0.02 ? 5000 : random() * 40);
  const [open, close] = pick(random, [['[', ']'] as const, ['{"a":', '}'] as const]);
  return `${open.repeat(depth)}"x"${close.repeat(depth)}`;
};

const anyObject: Generator = (random) =>
  formatObject(
    Array.from({ length: Math.ceil(random() * 3) }, () => [
      random() < 0.5 ? pick(random, NAMES) : createNoise(random),
      pick(random, [anyText, anyNumber, nestedValue])(random),
    ]),
  );

const createListGenerator =
  (item: Generator): Generator =>
  (random) =>
    `[${Array.from({ length: Math.floor(random() ** 4 * 60) }, () => item(random)).join(',')}]`;

const anyValue: Generator = (random) =>
  pick(random, [
    anyText,
    anyNumber,
    nestedValue,
    anyObject,
    createListGenerator(anyText),
    (any) => pick(any, OTHER_VALUES),
  ])(random);

/**
 * Returns bodies with up to two hostile members and, in one of twenty, an unknown one. One body in twenty is truncated
 * or any value. The same seed gives the same bodies.
 * @param options.good Creates a valid body.
 */
export function createHostileBodies(
  count: number,
  { seed, good, schema }: { seed: number; good: (random: Random) => object; schema: ObjectSchema },
): string[] {
  const random = createRandom(seed);
  const generators = Object.entries(schema.properties).map(
    ([name, member]) => [name, createGenerator(member)] as const,
  );
  return Array.from({ length: count }, () => {
    const members = new Map(
      Object.entries(good(random)).map(([name, value]) => [name, JSON.stringify(value)]),
    );
    for (let changes = Math.floor(random() * 3); changes > 0; changes -= 1) {
      const [name, generate] = pick(random, generators);
      members.set(name, (random() < 0.8 ? generate : anyValue)(random));
    }
    if (random() < 0.05) members.set(pick(random, NAMES), anyValue(random));
    const body = formatObject([...members]);
    if (random() < 0.95) return body;
    return random() < 0.5 ? body.slice(0, random() * body.length) : anyValue(random);
  });
}

/** Returns a generator of nearly valid values. */
function createGenerator(schema: object): Generator {
  if ('format' in schema) {
    return (random) => pick(random, schema.format === 'date-time' ? DATES : URLS);
  }
  const type = 'type' in schema ? schema.type : undefined;
  if (Array.isArray(type)) {
    const generators = type.map((name) => createGenerator({ ...schema, type: name }));
    return (random) => pick(random, generators)(random);
  }
  if (type === 'string') return anyText;
  if (type === 'number' || type === 'integer') return anyNumber;
  if (type === 'object') return anyObject;
  if (type === 'array' && 'items' in schema)
    return createListGenerator(createGenerator(schema.items as object));
  return anyValue;
}

function formatObject(members: readonly (readonly [name: string, json: string])[]): string {
  return `{${members.map(([name, json]) => `${quote(name)}:${json}`).join(',')}}`;
}

/** Returns random characters, including lone surrogates and invisible characters. */
function createNoise(random: Random): string {
  return String.fromCharCode(
    ...Array.from({ length: random() * 40 }, () => Math.floor(random() ** 2 * 0x1_0000)),
  );
}

function pick<Item>(random: Random, items: readonly Item[]): Item {
  return items[Math.floor(random() * items.length)] as Item;
}

/** Headers that the collector, its libraries or a proxy read. */
const HEADERS = [
  ...splitWords(
    'authorization x-request-id idempotency-key if-none-match range host accept expect',
  ),
  ...splitWords('accept-encoding content-type content-encoding origin cookie sec-fetch-site'),
  ...splitWords('if-modified-since x-forwarded-for forwarded traceparent upgrade'),
];

const HEADER_TEXTS = [
  ...splitWords('* ; , = " {} null __proto__ \' \0 \u007f ї Bearer W/"x gzip identity;q=0,*;q=0'),
  ...splitWords('bytes=0- bytes=9-1,0-0 bytes=-99999999999999999999 text/html */*;q=x text/plain'),
  ...splitWords(
    'application/json;charset=utf-16 application/json; multipart/form-data 100-continue',
  ),
  ...splitWords('http://evil.test cross-site for=_;by="[:: 127.0.0.1,::1,x [::1 a:99999999'),
].concat(['Bearer ', 'Bearer \u00ff', 'Basic Og==', '"a", "b"', '\t', '', 'x'.repeat(20_000)]);

/** Path segments and query values that are invalid or name nothing. */
const SEGMENTS = [
  ...splitWords(
    '0 -1 01 1e3 1.0 9007199254740993 9999999999999999 99999999999999999999 1;a [1] {id}',
  ),
  ...splitWords("% %0 %zz %00 %ff %c0%af %2e%2e .. . %2f \\ 1%20 1%0a 1'-- %F0%9F%8F%A0 __proto__"),
].concat(['', 'constructor', '9'.repeat(400), 'a'.repeat(64), '0'.repeat(64)]);

/** Invalid contents of a cursor. */
const CURSORS = [
  ...splitWords(
    '0 -1 1.5 1e99 2147483648 9007199254740993 9223372036854775808 NaN null {} [] [1,2]',
  ),
  ...splitWords('["x","y"] {"id":1e400} 1:1 0:-1 1.1 a\0b \u00ff'),
];

/** Unknown or malformed query parameters. */
const QUERY_PAIRS = splitWords('a & = % # __proto__=1 limit[]=1 limit[a]=1 %00=%ff');

/**
 * Returns requests to a route as bytes. The first is valid; most others have an invalid path, query, headers or body.
 * The same seed gives the same requests.
 * @param options.sha256 Hash of a stored image.
 */
export function createHostileRequests(
  route: Route,
  { count, seed, sha256 }: { count: number; seed: number; sha256: string },
): Buffer[] {
  const random = createRandom(seed);
  const bodies = createBodies(route, count, seed);
  return Array.from({ length: count }, (_, index) => {
    const isChanged = (share: number) => index > 0 && random() < share;
    const body = (isChanged(0.7) ? bodies?.hostile[index] : bodies?.good) ?? '';
    const segments = route.path
      .replace('{sha256}', sha256)
      .replace(/\{\w+\}/, '1')
      .replace(/\{\w+\}/, '2')
      .split('/');
    if (isChanged(0.5)) {
      const parameter = route.path.split('/').findIndex((segment) => segment.startsWith('{'));
      const changedIndex = Math.ceil(random() * (segments.length - 1));
      segments[parameter >= 0 && random() < 0.9 ? parameter : changedIndex] = pick(
        random,
        SEGMENTS,
      );
    }
    const query = createQuery(route, isChanged(0.7) ? random : undefined);
    const headers = new Map([
      ['host', 'localhost'],
      ['connection', 'close'],
    ]);
    if (bodies !== undefined) headers.set('content-type', bodies.type);
    for (let changes = isChanged(0.5) ? 2 : 0; changes > 0; changes -= 1) {
      headers.set(pick(random, HEADERS), pick(random, HEADER_TEXTS));
    }
    headers.set('content-length', String(Buffer.byteLength(body)));
    const lines = [...headers].map(([name, value]) => `${name}: ${value}\r\n`);
    const target = `${route.method.toUpperCase()} ${segments.join('/')}${query}`;
    return Buffer.from(`${target} HTTP/1.1\r\n${lines.join('')}\r\n${body}`);
  });
}

function createBodies({ body }: Route, count: number, seed: number) {
  if (body === undefined) return undefined;
  const { type, schema, example } = body;
  if (type === 'application/json') {
    const hostile = createHostileBodies(count, { seed, schema, good: () => example });
    return { type, good: JSON.stringify(example), hostile };
  }
  // Other tests cover the bytes of forms and images, so only the metadata is hostile.
  const metadata = JSON.parse((example as { metadata: string }).metadata) as object;
  const names = Object.keys(metadata).map((name) => [name, { type: 'string' }]);
  const properties = Object.fromEntries(names) as ObjectSchema['properties'];
  const hostile = createHostileBodies(count, {
    seed,
    schema: { properties },
    good: () => metadata,
  });
  const form = (text: string) => encodeForm([createPart('metadata', text)]).toString();
  return { type: FORM_TYPE, good: form(JSON.stringify(metadata)), hostile: hostile.map(form) };
}

/** Returns a valid query or, if `random` is given, a query with unknown, invalid or missing parameters. */
function createQuery({ parameters }: Route, random: Random | undefined): string {
  const declaredParameters = parameters.filter((parameter) => parameter.in === 'query');
  const pairs = declaredParameters
    .filter(({ required }) => required)
    .map((parameter) => `${parameter.name}=${createValidText(parameter)}`);
  if (random !== undefined) {
    if (random() < 0.5) pairs.length = 0;
    for (let remainingPairs = Math.ceil(random() * 3); remainingPairs > 0; remainingPairs -= 1) {
      pairs.push(createPair(declaredParameters, random));
    }
  }
  return pairs.length === 0 ? '' : `?${pairs.join('&')}`;
}

function createPair(declaredParameters: readonly Parameter[], random: Random): string {
  if (declaredParameters.length === 0 || random() < 0.2) return pick(random, QUERY_PAIRS);
  const { name, schema } = pick(random, declaredParameters);
  if (random() < 0.1) return name;
  if (random() < 0.1) return `${name}=${pick(random, SEGMENTS)}`;
  if (random() < 0.3) return `${name}=${Buffer.from(pick(random, CURSORS)).toString('base64url')}`;
  const json = (random() < 0.6 ? createGenerator(schema) : anyValue)(random);
  const text = json.startsWith('"') ? (JSON.parse(json) as string) : json;
  // Escapes the bytes by hand, since `encodeURIComponent` rejects lone surrogates.
  return `${name}=${Buffer.from(text.slice(0, 5000)).toString('hex').replaceAll(/../g, '%$&')}`;
}

function createValidText({ schema }: Parameter): string {
  if ('minimum' in schema) return '1000';
  const { anyOf: [first] = [] } = schema as { anyOf?: { enum: string[] }[] };
  return first?.enum[0] ?? 'a';
}
