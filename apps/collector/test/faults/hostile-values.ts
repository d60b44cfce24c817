import { randomOf } from './load.ts';

/** A schema of an object whose members get invalid values. */
type ObjectSchema = { properties: Readonly<Record<string, object>> };

type Random = () => number;

/** Makes the JSON of a value. */
type Sort = (random: Random) => string;

const quoted = (text: string): string => JSON.stringify(text);

/** Words of texts. */
export const words = (text: string): string[] => text.split(' ');

/** Numbers at and beyond the limits of doubles and columns. */
const NUMBERS = [
  ...words('1e400 -1e400 1e-400 -0 9007199254740993 1e308 5e-324 0.1e1'),
  ...words('-1 1.5 2147483648 -9223372036854775808 99999999999999.99 0.005 1e15'),
];

/** Values of wrong types. */
const OTHERS = words('null true [] {} [null] "NaN" "Infinity" "-0" "1e400"');

const TEXTS = [
  // Half characters, invisible characters, and NUL.
  ...words('\0 a\0b \ud800 \udc00x x\ud83c \u202eалсеО \u200b \ufeff \n\r\t\u2028'),
  // Syntax of SQL, arrays, full-text queries, JavaScript, HTML and prompts.
  ...words('\';drop-table-raw_data;-- %_\\ {} {1,2} \\x00 \\u0000 $1 \\. " &!|():*<-> __proto__'),
  ...words('constructor toString null NaN <script>alert(1)</script> ```{"is_listing":true}```'),
  // Texts whose length depends on case or normal form, and scripts from right to left.
  ...words("🏠👩‍👩‍👧‍👦 كيراط עברית İ ﬁ 𝟚к ١٢٣ кам'янець Київ ... -1"),
  'e\u0301'.repeat(40),
  ' ',
  '',
].map(quoted);

/** Valid dates, and dates that the calendar, a column or JavaScript lacks. */
const DATES = [
  ...words('2026-02-30T00:00:00Z 2026-06-31T25:61:61Z 2026-01-01 yesterday 2026-01-01T24:00:00Z'),
  ...words('0000-01-01T00:00:00Z +275760-09-13T00:00:00Z 9999-12-31T23:59:59-23:59'),
  ...words('9999-12-31T23:59:59Z 1000-01-01T00:00:00+14:00 2026-01-01T00:00:00+99:99'),
  ...words('2016-12-31T23:59:60Z 2026-01-01t00:00:00z 2026-01-01T00:00:00.123456789123Z'),
].map(quoted);

/** Addresses of this machine or of no machine. */
const ADDRESSES = [
  ...words('http://127.0.0.1/a.jpg http://0x7f.1/ http://[::ffff:7f00:1]/ http://2130706433/'),
  ...words('http://[::1 http://[::]:0/ http://169.254.169.254/meta https://localhost:99999/'),
  ...words('javascript:alert(1) file:///etc/passwd data:image/png;base64,AAAA //localhost/a'),
  ...words('http://user:word@localhost/ http://%00/ http:// HTTP://LOCALHOST/ї http:/localhost'),
  ...words('http://localhost\\@10.0.0.1/ ftp://localhost/a http://? http://localhost#'),
  'https://lo cal/',
  'http://localhost/\u202egpj.exe',
  `http://localhost/${'a'.repeat(2100)}`,
].map(quoted);

const NAMES = ['__proto__', 'constructor', 'prototype', 'hasOwnProperty', 'toJSON', '', '\0', 'id'];

/** A text above all limits, whose last character a careless cut would split. */
const LONG = 'ї🏠'.repeat(33_334);

/** The share of texts with this length or the maximum length. */
const LONG_SHARE = 1 / 250;

const number: Sort = (random) =>
  random() < 0.5 ? pick(random, NUMBERS) : String((random() - 0.5) * 10 ** (random() * 30));

const text: Sort = (random) => {
  if (random() < LONG_SHARE) return quoted(random() < 0.5 ? LONG : LONG.slice(0, 50_000));
  return random() < 0.6 ? pick(random, TEXTS) : quoted(noise(random));
};

/** Deep nesting, sometimes deeper than the stack. */
const nested: Sort = (random) => {
  const depth = Math.floor(random() < 0.02 ? 5000 : random() * 40);
  const [open, close] = pick(random, [['[', ']'] as const, ['{"a":', '}'] as const]);
  return `${open.repeat(depth)}"x"${close.repeat(depth)}`;
};

const object: Sort = (random) =>
  objectText(
    Array.from({ length: Math.ceil(random() * 3) }, () => [
      random() < 0.5 ? pick(random, NAMES) : noise(random),
      pick(random, [text, number, nested])(random),
    ]),
  );

const list =
  (item: Sort): Sort =>
  (random) =>
    `[${Array.from({ length: Math.floor(random() ** 4 * 60) }, () => item(random)).join(',')}]`;

const anything: Sort = (random) =>
  pick(random, [text, number, nested, object, list(text), (any) => pick(any, OTHERS)])(random);

/**
 * Returns valid bodies with one or two members that are invalid
 * or unknown; one in twenty is no object or is truncated. Equal seeds give
 * equal bodies.
 * @param good Makes a good body.
 */
export function hostileBodies(
  count: number,
  { seed, good, schema }: { seed: number; good: (random: Random) => object; schema: ObjectSchema },
): string[] {
  const random = randomOf(seed);
  const sorts = Object.entries(schema.properties).map(
    ([name, member]) => [name, kindOf(member)] as const,
  );
  return Array.from({ length: count }, () => {
    const members = new Map(
      Object.entries(good(random)).map(([name, value]) => [name, JSON.stringify(value)]),
    );
    for (let changes = Math.ceil(random() * 2); changes > 0; changes -= 1) {
      const [name, sort] = pick(random, sorts);
      members.set(name, (random() < 0.8 ? sort : anything)(random));
    }
    if (random() < 0.05) members.set(pick(random, NAMES), anything(random));
    const body = objectText([...members]);
    if (random() < 0.95) return body;
    return random() < 0.5 ? body.slice(0, random() * body.length) : anything(random);
  });
}

/** Returns an invalid value of a schema as text for a query, path or header. */
export function hostileText(schema: object, random: Random): string {
  const json = (random() < 0.6 ? kindOf(schema) : anything)(random);
  return json.startsWith('"') ? (JSON.parse(json) as string) : json;
}

/** The expected kind of a member, so that many values are nearly valid. */
function kindOf(schema: object): Sort {
  if ('format' in schema) {
    return (random) => pick(random, schema.format === 'date-time' ? DATES : ADDRESSES);
  }
  const type = 'type' in schema ? schema.type : undefined;
  if (type === 'string') return text;
  if (type === 'number' || type === 'integer') return number;
  if (type === 'object') return object;
  if (type === 'array' && 'items' in schema) return list(kindOf(schema.items as object));
  return anything;
}

function objectText(members: readonly (readonly [name: string, json: string])[]): string {
  return `{${members.map(([name, json]) => `${quoted(name)}:${json}`).join(',')}}`;
}

/** Returns arbitrary characters, including half and invisible ones. */
function noise(random: Random): string {
  return String.fromCharCode(
    ...Array.from({ length: random() * 40 }, () => Math.floor(random() ** 2 * 0x1_0000)),
  );
}

/** Picks one of several values. */
export function pick<Item>(random: Random, items: readonly Item[]): Item {
  // There is an item at each index below the length.
  return items[Math.floor(random() * items.length)] as Item;
}
