import { isSecretName } from './secret-names.ts';

/** What is shown in place of a credential. */
const MASK = '***';

/** A part of a text, from an offset to the one before `end`. */
type Range = { start: number; end: number };

/** Which ends of a text are not those of what it was taken from. */
export type Cut = { isCutBefore?: boolean; isCutAfter?: boolean };

/** What addresses are written in one piece of. Single quotes and backticks may be in a password (RFC 3986 §3.2.1). */
const WORD = /[^\s"<>]+/g;

/** The signs of addresses, as JSON may write them as well; browsers take `\` for `/`. */
const SLASH = String.raw`(?:\\u00(?:2f|5c)|[/\\])`;
const COLON = String.raw`(?::|\\u003a)`;
const AT = String.raw`(?:@|\\u0040)`;

/**
 * What a user and password may follow: a scheme with slashes, one of those after which browsers need none
 * (https://url.spec.whatwg.org/#special-scheme), or slashes at the beginning.
 */
const START = new RegExp(
  String.raw`(?<![a-z])(?:https?|wss?|ftp)${COLON}${SLASH}*|${COLON}${SLASH}{2,}|(?<=^|[=,;(])${SLASH}{2,}`,
  'gi',
);

/** Where the part of an address ends that has a user in it. */
const AUTHORITY_END = new RegExp(String.raw`${SLASH}|[?#]`, 'i');

/** A colon with what is no port after it, and not within the brackets of an address of IPv6. */
const PASSWORD = new RegExp(String.raw`^(?!\[).*?${COLON}(?!\d{0,5}(?:$|[^\w:]))`, 'is');

/**
 * `user:password@host` by itself, where a port, a path or a bracket follows: without, it may be anything, such as
 * `npm:package@1.2`. Its parts are bounded, so that it takes little time in any text.
 */
const BARE = new RegExp(
  String.raw`(?<=^|[/=,;('\u0060])(?!(?:acct|im|mailto|sips?|xmpp):)[^:/\\=,;(@]{1,128}${COLON}[^/\\]{1,256}(?=${AT}[^@:/\\(,;]{1,255}(?::\d{1,5}(?!\w)|[/\\(]))`,
  'gi',
);

/** The name of a parameter, with what stands before and behind it. */
const PARAMETER = /([?&#;]|\\u0026)([^=&#?;\\]{1,64})(?:=|\\u003d)/gi;

/** Where the value of a parameter ends; one that is a secret may have signs in it that it should not have. */
const VALUE_END = /[?&#;]|\\u0026/g;
const SECRET_END = /[&#]|\\u0026/g;

/**
 * A text in which the credentials of addresses are not to be read: the user name and password before `@` (RFC 3986
 * §3.2.1), and the values of parameters that are named as secrets are, such as `token` or `api_key`. It takes time
 * in proportion to the text.
 */
export function maskCredentials(text: string): string {
  return hide(text, credentialRanges(text));
}

/** The same for an id of a record, in which `ssh:root@host:22` stands for an endpoint. */
export function maskId(id: string): string {
  return hide(id, credentialRanges(id, { isId: true }));
}

/**
 * The two sides of a place in a text, each masked. What a cut has left of an address is masked as well, since
 * nobody knows what was around it.
 */
export function maskAround(
  text: string,
  at: number,
  { isId = false, ...cut }: Cut & { isId?: boolean },
): { left: string; right: string } {
  const ranges = inOrder([...cutRanges(text, cut), ...credentialRanges(text, { isId })]);
  const within = (from: number, to: number) =>
    ranges
      .filter(({ start, end }) => end > from && start < to)
      .map(({ start, end }) => ({
        start: Math.max(start, from) - from,
        end: Math.min(end, to) - from,
      }));
  return {
    left: hide(text.slice(0, at), within(0, at)),
    right: hide(text.slice(at), within(at, text.length)),
  };
}

/**
 * A copy of a parsed JSON value in which all texts, names of properties too, are masked. Names that become the same
 * by it get a number.
 */
export function maskValue(value: unknown): unknown {
  if (typeof value === 'string') return maskCredentials(value);
  if (Array.isArray(value)) return value.map(maskValue);
  if (typeof value !== 'object' || value === null) return value;
  const shown = new Map<string, unknown>();
  for (const [key, part] of Object.entries(value)) {
    const name = maskCredentials(key);
    let free = name;
    for (let number = 2; shown.has(free); number += 1) free = `${name} (${number})`;
    shown.set(free, maskValue(part));
  }
  return Object.fromEntries(shown);
}

/** A copy of a record, or of what is known of one, in which all texts are masked, and the id as an id. */
export function maskRecord<T extends { id: string; url?: string | undefined }>(record: T): T {
  const { id, url } = record;
  return {
    // Masked texts are texts, so it stays what it is.
    ...(maskValue(record) as T),
    id: maskId(id),
    ...(url !== undefined && { url: maskAddress(url) }),
  };
}

/** A whole address, in which a password may have spaces and quotes too, as browsers read it. */
function maskAddress(url: string): string {
  return maskCredentials(hide(url, inOrder([...userinfoRanges(url), ...secretRanges(url)])));
}

/** An address without its user name, its password and its secret parameters, for what is going to ask it. */
export function withoutCredentials(written: string): string {
  const plain = written.trim();
  const users = userinfoRanges(plain).map(({ start, end }) => ({
    start,
    // The sign behind it goes as well, which JSON may write as an escape.
    end: end + (plain[end] === '@' ? 1 : String.raw`\u0040`.length),
  }));
  const secrets = secretRanges(plain).map(({ name, end }) => ({ start: name, end }));
  const bare = hide(plain, inOrder([...users, ...secrets]), '');
  return secrets.length === 0 ? bare : bare.replaceAll(/(?<=[?#])&+|[?#;&]+(?=[#?]|$)/g, '');
}

/** The signs without which there is no credential, as JSON may write them as well. */
const MAY_HOLD_CREDENTIALS = /[@=]|\\u00(?:40|3d)/i;

/** What kind of credential an address holds, as messages say it; null when it holds none. */
export function credentialIn(written: string): string | null {
  if (!MAY_HOLD_CREDENTIALS.test(written)) return null;
  const url = URL.parse(written);
  if (url !== null && url.password !== '') return 'a password';
  if (url !== null && url.username !== '') return 'a user name';
  if (secretRanges(written).length > 0) return 'a secret in its query';
  return userinfoRanges(written).length > 0 ? 'a password' : null;
}

function credentialRanges(text: string, { isId = false } = {}): Range[] {
  if (!MAY_HOLD_CREDENTIALS.test(text)) return [];
  const ranges: Range[] = [];
  for (const { 0: word, index } of text.matchAll(WORD)) {
    const found = [...userinfoRanges(word), ...secretRanges(word)];
    if (!isId) found.push(...bareRanges(word));
    for (const { start, end } of found) ranges.push({ start: index + start, end: index + end });
  }
  return inOrder(ranges);
}

/** Where in one word users and passwords stand before an `@` of addresses. */
function userinfoRanges(word: string): Range[] {
  const ranges: Range[] = [];
  const starts = Array.from(word.matchAll(START), ({ 0: sign, index }) => ({
    index,
    start: index + sign.length,
  }));
  let unfinished: number | null = null;
  for (const [nth, { start }] of starts.entries()) {
    const part = word.slice(start, starts[nth + 1]?.index);
    const authority = part.slice(0, AUTHORITY_END.exec(part)?.index);
    const isOpen: boolean = unfinished !== null || PASSWORD.test(authority);
    // Passwords are written with signs that they should not have; the last `@` may be the one behind them.
    const at: number | null = lastAt(authority) ?? (isOpen ? lastAt(part) : null);
    if (at !== null && (at > 0 || unfinished !== null)) {
      ranges.push({ start: unfinished ?? start, end: start + at });
    }
    unfinished = at === null && isOpen ? (unfinished ?? start) : null;
  }
  return ranges;
}

function lastAt(text: string): number | null {
  const at = Math.max(text.lastIndexOf('@'), text.lastIndexOf(String.raw`\u0040`));
  return at === -1 ? null : at;
}

function bareRanges(word: string): Range[] {
  if (!word.includes('@') && !/\\u0040/i.test(word)) return [];
  return Array.from(word.matchAll(BARE), ({ 0: user, index }) => ({
    start: index,
    end: index + user.length,
  }));
}

/**
 * Where in one word the values of secret parameters stand, and their names begin; with `;` in them, as passwords
 * have it. A value that is an encoded address with a credential is one as well.
 */
function secretRanges(word: string): (Range & { name: number })[] {
  const ranges: (Range & { name: number })[] = [];
  let from = 0;
  for (const { 0: whole, 1: sign = '', 2: name = '', index } of word.matchAll(PARAMETER)) {
    if (index < from) continue;
    const start = index + whole.length;
    const isNamed = isSecretName(decoded(name));
    const end = indexFrom(isNamed ? SECRET_END : VALUE_END, word, start);
    if (end === start || !(isNamed || isSecretValue(word.slice(start, end)))) continue;
    ranges.push({ name: /[?#]/.test(sign) ? index + 1 : index, start, end });
    from = end;
  }
  return ranges;
}

/** Where a sign (a `g` expression) stands in a text from an index on; the text's end if there is none. */
function indexFrom(sign: RegExp, text: string, from: number): number {
  sign.lastIndex = from;
  return sign.exec(text)?.index ?? text.length;
}

function isSecretValue(value: string): boolean {
  if (!value.includes('%')) return false;
  const plain = decoded(value);
  return plain !== value && userinfoRanges(plain).length > 0;
}

function decoded(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

/** What a cut has left of words that may have been addresses with credentials. */
function cutRanges(text: string, { isCutBefore, isCutAfter }: Cut): Range[] {
  const ranges: Range[] = [];
  if (isCutBefore) {
    const end = text.search(/[\s"<>]/);
    ranges.push({ start: 0, end: end === -1 ? text.length : end });
  }
  if (isCutAfter) {
    const word = text.slice(lastBreak(text) + 1);
    const start = unfinishedAt(word);
    if (start !== -1) ranges.push({ start: text.length - word.length + start, end: text.length });
  }
  return ranges;
}

function lastBreak(text: string): number {
  return Math.max(...[' ', '\n', '\r', '\t', '"', '<', '>'].map((sign) => text.lastIndexOf(sign)));
}

/** Where in a word a user and password may have begun whose `@` has been cut off; -1 for nowhere. */
function unfinishedAt(word: string): number {
  for (const { 0: sign, index } of word.matchAll(START)) {
    const start = index + sign.length;
    const rest = word.slice(start);
    const end = AUTHORITY_END.exec(rest)?.index;
    if (end === undefined || PASSWORD.test(rest.slice(0, end))) return start;
  }
  return /^[^/\\:]+:/.test(word) && word.search(START) === -1 ? 0 : -1;
}

function inOrder(ranges: readonly Range[]): Range[] {
  return ranges.toSorted((a, b) => a.start - b.start);
}

function hide(text: string, ranges: readonly Range[], mask = MASK): string {
  const parts: string[] = [];
  let from = 0;
  for (const { start, end } of ranges) {
    if (end <= from) continue;
    parts.push(text.slice(from, Math.max(start, from)), mask);
    from = end;
  }
  return parts.length === 0 ? text : parts.join('') + text.slice(from);
}
