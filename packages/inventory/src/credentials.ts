/** What is shown in place of a credential. */
const MASK = '***';

/** A part of a text, from an offset to the one before `end`. */
type Range = { start: number; end: number };

/** Which ends of a text are not those of what it was taken from. */
export type Cut = { isCutBefore?: boolean; isCutAfter?: boolean };

/** What addresses are written in one piece of; they end at spaces, quotes and angle brackets. */
const WORD = /[^\s"'`<>]+/g;

/** What tells the parts of an address apart (RFC 3986 §2.2); browsers take `\` for `/`. */
const SIGN = /:[/\\]*|[/\\?#@=,;(]/g;

/** Signs between addresses in a list; users and passwords may have them as well. */
const LIST_SIGN = /[=,;(]/;

/** Schemes after which browsers need no slashes (https://url.spec.whatwg.org/#special-scheme). */
const WEB_SCHEME = /(^|[^a-z])(https?|wss?|ftp)$/i;

/** The end of a text at which a user and password, or a password, may have begun. */
const UNFINISHED =
  /(?<=:[/\\]{2})[^\s"'`<>/\\?#]*$|(?<=^|[\s"'`<>/\\])[^\s"'`<>/\\:]+:[^\s"'`<>/\\]*$/;

/** The name of a parameter; `\u0026` is how JSON may write the `&` before it. */
const PARAMETER = /(?:[?&#;]|\\u0026)([^=&#?;\\]{1,64})=/g;

/** Where the value of a parameter ends. */
const VALUE_END = /[&#]|\\u0026/g;

/** Names of parameters, in lower case and without signs, that are those of secrets. */
const SECRET_NAME =
  /token|passw|passphrase|pwd|secret|(api|access|account|auth|client|private|shared|subscription)key|signature|credential|jwt|bearer|authorization/;
const SECRET_NAMES = new Set(['auth', 'key', 'pass', 'pw', 'sessionid', 'sid', 'sig']);

/** Schemes of addresses in which a mailbox or an account follows, and no user with a password. */
const MAILBOXES = new Set(['acct', 'im', 'mailto', 'sip', 'sips', 'xmpp']);

/**
 * A text in which the credentials of addresses are not to be read: the user name and password before `@` (RFC 3986
 * §3.2.1), and the values of parameters that are named as secrets are, such as `token` or `api_key`. It takes time
 * in proportion to the text.
 */
export function maskCredentials(text: string): string {
  return hide(text, credentialRanges(text));
}

/**
 * The two sides of a place in a text, each masked. What a cut has left of an address is masked as well, since
 * nobody knows what was around it.
 */
export function maskAround(text: string, at: number, cut: Cut): { left: string; right: string } {
  const ranges = [...cutRanges(text, cut), ...credentialRanges(text)].toSorted(
    (a, b) => a.start - b.start,
  );
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

/** A copy of a parsed JSON value in which all texts, names of properties too, are masked. */
export function maskValue(value: unknown): unknown {
  if (typeof value === 'string') return maskCredentials(value);
  if (Array.isArray(value)) return value.map(maskValue);
  if (typeof value !== 'object' || value === null) return value;
  const entries = Object.entries(value);
  return Object.fromEntries(entries.map(([key, part]) => [maskCredentials(key), maskValue(part)]));
}

/** An address without its user name, its password and its secret parameters, for what is going to ask it. */
export function withoutCredentials(written: string): string {
  const plain = written.trim();
  const [user] = userinfoRanges(plain);
  const bare = user === undefined ? plain : plain.slice(0, user.start) + plain.slice(user.end + 1);
  const [, address = '', query, fragment] = /^([^?#]*)(\?[^#]*)?(#[^]*)?$/.exec(bare) ?? [];
  return address + withoutSecrets(query) + withoutSecrets(fragment);
}

/** What kind of credential an address holds, as messages say it; null when it holds none. */
export function credentialIn(written: string): string | null {
  const url = URL.parse(written);
  if (url !== null && url.password !== '') return 'a password';
  if (url !== null && url.username !== '') return 'a user name';
  return secretRanges(written).length > 0 ? 'a secret in its query' : null;
}

/** The parameters after `?` or `#` that are no secrets; nothing when there are none left. */
function withoutSecrets(part = ''): string {
  const parameters = part.slice(1).split('&');
  const kept = parameters.filter((one) => !one.includes('=') || !isSecretName(nameOf(one)));
  return kept.length === parameters.length
    ? part
    : kept.length === 0
      ? ''
      : part[0] + kept.join('&');
}

function nameOf(parameter: string): string {
  return parameter.slice(0, parameter.indexOf('='));
}

function credentialRanges(text: string): Range[] {
  if (!text.includes('@') && !text.includes('=')) return [];
  const ranges: Range[] = [];
  for (const { 0: word, index } of text.matchAll(WORD)) {
    if (!word.includes('@') && !word.includes('=')) continue;
    for (const { start, end } of [...userinfoRanges(word), ...secretRanges(word)]) {
      ranges.push({ start: index + start, end: index + end });
    }
  }
  return ranges;
}

/** Where in one word users and passwords stand before an `@`: after a scheme, or `user:password` by itself. */
function userinfoRanges(word: string): Range[] {
  const ranges: Range[] = [];
  let place = begin(0, false);
  for (const { 0: sign, index } of word.matchAll(SIGN)) {
    const next = index + sign.length;
    const isInAuthority = place.isAuthority && place.delimiter === -1;
    if (sign === '@') {
      const { start } = place;
      if (!isUserinfo(word, place, index)) continue;
      if (ranges.at(-1)?.start === start) ranges.pop();
      ranges.push({ start, end: index });
    } else if (!isInAuthority && isSchemeEnd(word, sign, { start: place.start, end: index })) {
      place = begin(next, true);
    } else if (sign[0] === ':') {
      if (place.colon === -1 && place.delimiter === -1) place.colon = index;
      if (sign.length > 1 && place.delimiter === -1) place.delimiter = index + 1;
    } else if (place.isAuthority) {
      if (place.delimiter !== -1 || LIST_SIGN.test(sign)) continue;
      place.delimiter = index;
      // A user has ended before this, so what follows is a path.
      if (ranges.at(-1)?.start === place.start) place.colon = -1;
    } else if (place.colon === -1 || !LIST_SIGN.test(sign)) {
      place = begin(next, false);
    }
  }
  return ranges;
}

/** Where a user may begin, the first colon after it, and the first sign that no user name has; -1 for none yet. */
type Place = { start: number; isAuthority: boolean; colon: number; delimiter: number };

function begin(start: number, isAuthority: boolean): Place {
  return { start, isAuthority, colon: -1, delimiter: -1 };
}

function isSchemeEnd(word: string, sign: string, { start, end }: Range): boolean {
  if (sign[0] !== ':') return false;
  return sign.length > 2 || WEB_SCHEME.test(word.slice(Math.max(start, end - 8), end));
}

/** Whether what stands from the place up to an `@` is a user, and no path or digest. */
function isUserinfo(word: string, place: Place, at: number): boolean {
  const { start, isAuthority, colon, delimiter } = place;
  const hasPassword = colon > start && at > colon + 1;
  if (!isAuthority) {
    const name = word.slice(start, Math.min(colon, start + 8)).toLowerCase();
    return hasPassword && !MAILBOXES.has(name) && !/^sha\d+:/.test(word.slice(at + 1, at + 8));
  }
  if (delimiter === -1) return at > start;
  // Passwords are written with signs that they should not have; what is a port is none.
  const isPort = /^\d{1,5}$/.test(word.slice(colon + 1, Math.min(delimiter, colon + 7)));
  return hasPassword && word[start] !== '[' && !isPort;
}

/** Where in one word the values of secret parameters stand; with `;` in them, as passwords have it. */
function secretRanges(word: string): Range[] {
  const ranges: Range[] = [];
  let from = 0;
  for (const { 0: whole, 1: name = '', index } of word.matchAll(PARAMETER)) {
    if (index < from || !isSecretName(name)) continue;
    const start = index + whole.length;
    VALUE_END.lastIndex = start;
    from = VALUE_END.exec(word)?.index ?? word.length;
    if (from > start) ranges.push({ start, end: from });
  }
  return ranges;
}

function isSecretName(name: string): boolean {
  const plain = decoded(name)
    .toLowerCase()
    .replaceAll(/[^a-z\d]/g, '');
  return SECRET_NAMES.has(plain) || SECRET_NAME.test(plain);
}

function decoded(name: string): string {
  try {
    return decodeURIComponent(name);
  } catch {
    return name;
  }
}

/** What a cut has left of words that may have been addresses with credentials. */
function cutRanges(text: string, { isCutBefore, isCutAfter }: Cut): Range[] {
  const ranges: Range[] = [];
  if (isCutBefore) {
    const end = text.search(/[\s"'`<>]/);
    ranges.push({ start: 0, end: end === -1 ? text.length : end });
  }
  if (isCutAfter) {
    const start = text.search(UNFINISHED);
    if (start !== -1) ranges.push({ start, end: text.length });
  }
  return ranges;
}

function hide(text: string, ranges: readonly Range[]): string {
  const parts: string[] = [];
  let from = 0;
  for (const { start, end } of ranges) {
    if (end <= from) continue;
    parts.push(text.slice(from, Math.max(start, from)), MASK);
    from = end;
  }
  return parts.length === 0 ? text : parts.join('') + text.slice(from);
}
