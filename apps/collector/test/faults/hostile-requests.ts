import { type Parameter, type Route, FORM_TYPE, formBytes, part } from '../support/collector.ts';
import { hostileBodies, hostileText, pick, words } from './hostile-values.ts';
import { randomOf } from './load.ts';

type Random = () => number;

/** Headers that the collector, its libraries or a proxy read. */
const HEADERS = [
  ...words('authorization x-request-id idempotency-key if-none-match if-modified-since range host'),
  ...words('accept accept-encoding content-type content-encoding origin cookie sec-fetch-site'),
  ...words('x-forwarded-for forwarded expect traceparent upgrade'),
];

const HEADER_TEXTS = [
  ...words('* ; , = " {} null __proto__ \' \0 \u007f ї Bearer W/"x gzip identity;q=0,*;q=0'),
  ...words('bytes=0- bytes=9-1,0-0 bytes=-99999999999999999999 text/html */*;q=x text/plain'),
  ...words('application/json;charset=utf-16 application/json; multipart/form-data 100-continue'),
  ...words('http://evil.test cross-site for=_;by="[:: 127.0.0.1,::1,x [::1 a:99999999'),
  'Bearer ',
  'Bearer oselya_1_x',
  'Bearer \u00ff',
  'Basic Og==',
  'multipart/form-data; boundary="',
  '"a", "b"',
  '\t',
  '',
  'x'.repeat(3000),
  'x'.repeat(20_000),
];

/** Encoded replacements for a path segment. */
const SEGMENTS = [
  ...words('0 -1 01 1e3 1.0 9007199254740993 9999999999999999 99999999999999999999 1;a [1] {id}'),
  ...words("% %0 %zz %00 %ff %c0%af %2e%2e .. . %2f \\ 1%20 1%0a 1'-- %F0%9F%8F%A0 __proto__"),
  '',
  'constructor',
  '9'.repeat(400),
  'a'.repeat(64),
  '0'.repeat(64),
];

/** Invalid contents of a cursor. */
const PLACES = [
  ...words('0 -1 1.5 1e99 2147483648 9007199254740993 9223372036854775808 NaN null {} [] [1,2]'),
  ...words('["x","y"] {"id":1e400} 1:1 0:-1 1.1 a\0b \u00ff'),
  '',
];

/** Unknown query parameters. */
const PAIRS = words('a & = % # __proto__=1 limit[]=1 limit[a]=1 %00=%ff');

const text: object = { type: 'string' };

/**
 * Returns requests to a route as bytes: the first is valid, and most others have an invalid path, query, headers or
 * body. Equal seeds give equal requests.
 * @param sha256 The hash of a stored image.
 */
export function hostileRequests(
  route: Route,
  { count, seed, sha256 }: { count: number; seed: number; sha256: string },
): Buffer[] {
  const random = randomOf(seed);
  const bodies = bodiesOf(route, count, seed);
  const nextSegment = cycle(SEGMENTS);
  return Array.from({ length: count }, (_, nth) => {
    const isGood = nth === 0;
    const changes = (share: number) => !isGood && random() < share;
    const body = (changes(0.7) ? bodies?.hostile[nth] : bodies?.good) ?? '';
    const good = route.path.replace('{sha256}', sha256).replace(/\{\w+\}/, '1');
    const target = changes(0.5) ? hostilePath(route, { good, random, nextSegment }) : good;
    const query = queryOf(route, changes(0.7) ? random : undefined);
    const headers = headersOf(bodies?.type, changes(0.5) ? random : undefined);
    headers.set('content-length', String(Buffer.byteLength(body)));
    const lines = [...headers].map(([name, value]) => `${name}: ${value}\r\n`);
    const head = `${route.method.toUpperCase()} ${target}${query} HTTP/1.1\r\n${lines.join('')}\r\n`;
    return Buffer.concat([Buffer.from(head), Buffer.from(body)]);
  });
}

/** Returns bodies of the route's media type, or undefined for a route without a body. */
function bodiesOf({ body }: Route, count: number, seed: number) {
  if (body === undefined) return undefined;
  const { type, schema, example } = body;
  if (type === 'application/json') {
    const hostile = hostileBodies(count, { seed, schema, good: () => example });
    return { type, good: JSON.stringify(example), hostile };
  }
  // Other tests cover the bytes of forms and images.
  const metadata = JSON.parse((example as { metadata: string }).metadata) as object;
  const properties = Object.fromEntries(Object.keys(metadata).map((name) => [name, text]));
  const hostile = hostileBodies(count, { seed, schema: { properties }, good: () => metadata });
  return { type: FORM_TYPE, good: form(JSON.stringify(metadata)), hostile: hostile.map(form) };
}

const form = (metadata: string) => formBytes([part('metadata', metadata)]).toString();

/** Returns the path with one replaced segment, preferably a parameter. */
function hostilePath(
  { path }: Route,
  { good, random, nextSegment }: { good: string; random: Random; nextSegment: () => string },
): string {
  const segments = good.split('/');
  const parameter = path.split('/').findIndex((segment) => segment.startsWith('{'));
  if (parameter < 0 && random() < 0.7) return good;
  const other = Math.ceil(random() * (segments.length - 1));
  const replaced = parameter >= 0 && random() < 0.9 ? parameter : other;
  segments[replaced] = random() < 0.9 ? nextSegment() : encoded(hostileText(text, random));
  return segments.join('/');
}

function queryOf({ parameters }: Route, random: Random | undefined): string {
  const declared = parameters.filter((parameter) => parameter.in === 'query');
  const good = declared.filter(({ required }) => required).map((one) => [one.name, goodText(one)]);
  const pairs = good.map(([name, value]) => `${name}=${value}`);
  if (random !== undefined) {
    const more = Math.ceil(random() * 3);
    pairs.push(...Array.from({ length: more }, () => pairOf(declared, random)));
    // A required parameter is repeated or missing.
    if (random() < 0.5) pairs.splice(0, good.length);
  }
  return pairs.length === 0 ? '' : `?${pairs.join('&')}`;
}

function pairOf(declared: readonly Parameter[], random: Random): string {
  if (declared.length === 0 || random() < 0.2) return pick(random, PAIRS);
  const { name, schema } = pick(random, declared);
  if (random() < 0.1) return name;
  if (random() < 0.1) return `${name}=${pick(random, SEGMENTS)}`;
  if (random() < 0.3) return `${name}=${Buffer.from(pick(random, PLACES)).toString('base64url')}`;
  return `${name}=${encoded(hostileText(schema, random))}`;
}

/** Returns a valid value of a required parameter. */
function goodText({ schema }: Parameter): string {
  if ('minimum' in schema) return '1000';
  const { anyOf: [first] = [] } = schema as { anyOf?: { enum: string[] }[] };
  return first?.enum[0] ?? 'a';
}

/** @param type The media type of the body. */
function headersOf(type: string | undefined, random: Random | undefined): Map<string, string> {
  const headers = new Map([
    ['host', 'localhost'],
    ['connection', 'close'],
  ]);
  if (type !== undefined) headers.set('content-type', type);
  if (random === undefined) return headers;
  for (let left = Math.ceil(random() * 3); left > 0; left -= 1) {
    headers.set(pick(random, HEADERS), headerText(random));
  }
  return headers;
}

function headerText(random: Random): string {
  return random() < 0.8
    ? pick(random, HEADER_TEXTS)
    : hostileText(text, random)
        .slice(0, 1000)
        .replaceAll(/[\r\n]/g, ' ');
}

/** Cycles through the values so that each is used. */
function cycle(items: readonly string[]): () => string {
  let dealt = 0;
  return () => items[dealt++ % items.length] ?? '';
}

/** Encodes bytes by number, since an encoder rejects half characters. */
function encoded(value: string): string {
  return Buffer.from(value.slice(0, 5000)).toString('hex').replaceAll(/../g, '%$&');
}
