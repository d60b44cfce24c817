/** Replaces a credential in output. */
const MASK = '***';

/** A part of a text, from `start` to before `end`. */
export type Range = { start: number; end: number };

/**
 * Normalized names of parameters with secret values. They are whole names, so that `max_tokens` and `tokenizer`
 * are not among them.
 */
const SECRET_NAMES = new Set(
  `
  token accesstoken apitoken authtoken idtoken jobtoken oauthtoken
  privatetoken refreshtoken securitytoken sessiontoken xamzsecuritytoken
  xauthtoken sastoken bottoken deploytoken logintoken personalaccesstoken
  pass passphrase passwd password pw pwd userpassword dbpassword
  sslpassword keystorepassword truststorepassword sslkeypassword
  secret appsecret clientsecret consumersecret sharedsecret webhooksecret
  secretkey secretaccesskey awssecretaccesskey
  key accesskey accountkey apikey appkey authkey clientkey consumerkey
  functionskey licensekey privatekey sharedkey sharedaccesskey xapikey
  subscriptionkey ocpapimsubscriptionkey awsaccesskeyid
  sig signature hmac oauthsignature sharedaccesssignature
  xamzsignature xgoogsignature credential credentials xamzcredential
  xgoogcredential auth authorization bearer jwt otp
  session sessionid sid jsessionid phpsessid
  `
    .trim()
    .split(/\s+/),
);

/**
 * Returns an expression for the user and password before the `@` of an address with `//` (RFC 3986 §3.2.1). JSON
 * and JSON pointers may escape slashes. A password that is not a port may contain slashes itself; its length bounds the time.
 * @param ends The characters that end an address.
 */
function userinfo(ends: string): RegExp {
  const slashes = String.raw`(?:\\?/|~1){2}`;
  const start = String.raw`(?<=:${slashes}|(?:^|[\s"<>=,;(])${slashes})`;
  const password = String.raw`[^${ends}/?#:@[\\]*:(?!\d{0,5}(?:[^\w:]|$))[^${ends}]{0,1024}`;
  return new RegExp(String.raw`${start}(?:[^${ends}/?#\\]+|${password})(?=@)`, 'g');
}

const USERINFO = userinfo(String.raw`\s"<>`);
/** The same for a text that is one address. */
const ADDRESS_USERINFO = userinfo(String.raw`\n`);

/** `user:password` before `@host` and a port, path or bracket. Without those it may be `npm:package@1.2`. */
const BARE =
  /(?<=^|[\s"<>/=,;('`])(?!(?:acct|im|mailto|sips?|xmpp):)[^\s"<>:/\\=,;(@]{1,128}:[^\s"<>/\\]{1,256}(?=@[^\s"<>@:/\\(,;]{1,255}(?::\d{1,5}(?!\w)|[/\\(]))/gi;

/** The separator and name of a parameter. Some writers of JSON escape `&`. */
const PARAMETER = /(?:[?&#;]|\\u0026)([^\s"<>=&#?;\\]{1,64})=/g;
const SECRET_VALUE = /(?:(?!\\u0026)[^\s"<>&#])+/y;

/**
 * Masks the credentials of addresses in a text: users and passwords before `@`, and parameters with names such as
 * `token`. The time is proportional to the length.
 */
export function maskCredentials(text: string): string {
  return hide(text, credentialRanges(text));
}

/** Masks the id of a record, in which `ssh:root@host:22` is an endpoint and not a password. */
export function maskId(id: string): string {
  return hide(id, credentialRanges(id, true));
}

/** Returns a copy of a JSON value in which all strings and keys are masked. */
export function maskValue(value: unknown): unknown {
  if (typeof value === 'string') return maskCredentials(value);
  if (Array.isArray(value)) return value.map(maskValue);
  if (typeof value !== 'object' || value === null) return value;
  return Object.fromEntries(
    Object.entries(value).map(([key, part]) => [maskCredentials(key), maskValue(part)]),
  );
}

/** Returns a copy of a record in which all strings are masked. */
export function maskRecord<T extends { id: string; url?: string | undefined }>(record: T): T {
  const { id, url } = record;
  return {
    // Masking keeps the types of all values.
    ...(maskValue(record) as T),
    id: maskId(id),
    ...(url !== undefined && {
      url: maskCredentials(hide(url, rangesOf(ADDRESS_USERINFO, url))),
    }),
  };
}

/** Returns an address without its user, password and secret parameters. */
export function withoutCredentials(written: string): string {
  const address = written.trim();
  const users = rangesOf(ADDRESS_USERINFO, address).map(({ start, end }) => {
    return { start, end: end + 1 };
  });
  const secrets = secretRanges(address);
  const parameters = secrets.map(({ name, end }) => ({ start: name, end }));
  const bare = hide(address, inOrder([...users, ...parameters]), '');
  return secrets.length === 0 ? bare : bare.replaceAll(/(?<=[?#])&+|[?#;&]+(?=[#?]|$)/g, '');
}

/** Names the kind of credential in an address; returns null when it has none. */
export function credentialIn(written: string): string | null {
  if (!/[@=]/.test(written)) return null;
  const url = URL.parse(written);
  if (url !== null && url.password !== '') return 'a password';
  if (url !== null && url.username !== '') return 'a user name';
  if (secretRanges(written).length > 0) return 'a secret in its query';
  return rangesOf(ADDRESS_USERINFO, written).length > 0 ? 'a password' : null;
}

/**
 * Returns the ranges of credentials in a text, in order; they may overlap.
 * @param isId Whether `user:password@host` without slashes is no credential.
 */
export function credentialRanges(text: string, isId = false): Range[] {
  if (!/[@=]/.test(text)) return [];
  const bare = isId ? [] : rangesOf(BARE, text);
  return inOrder([...rangesOf(USERINFO, text), ...bare, ...secretRanges(text)]);
}

/** Returns a text with ranges, which must be in order, replaced. */
export function hide(text: string, ranges: readonly Range[], mask = MASK): string {
  const parts: string[] = [];
  let from = 0;
  for (const { start, end } of ranges) {
    if (end <= from) continue;
    parts.push(text.slice(from, Math.max(start, from)), mask);
    from = end;
  }
  return parts.length === 0 ? text : parts.join('') + text.slice(from);
}

function rangesOf(expression: RegExp, text: string): Range[] {
  if (!text.includes('@')) return [];
  return Array.from(text.matchAll(expression), ({ 0: found, index }) => {
    return { start: index, end: index + found.length };
  });
}

/** Returns the values of secret parameters, and where each name begins. */
function secretRanges(text: string): (Range & { name: number })[] {
  const ranges: (Range & { name: number })[] = [];
  let from = 0;
  for (const { 0: whole, 1: name = '', index } of text.matchAll(PARAMETER)) {
    if (index < from || !SECRET_NAMES.has(name.toLowerCase().replaceAll(/[^a-z\d]/g, ''))) continue;
    const start = index + whole.length;
    SECRET_VALUE.lastIndex = start;
    const [value] = SECRET_VALUE.exec(text) ?? [];
    if (value === undefined) continue;
    from = start + value.length;
    ranges.push({ name: /[?#]/.test(whole) ? index + 1 : index, start, end: from });
  }
  return ranges;
}

function inOrder(ranges: readonly Range[]): Range[] {
  return ranges.toSorted((a, b) => a.start - b.start);
}
