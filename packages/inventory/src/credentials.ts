const MASK = '***';

/** Text range from `start` (inclusive) to `end` (exclusive). */
type TextRange = { start: number; end: number };

/**
 * Normalized names of parameters with secret values. Only whole names match, so `max_tokens` and `tokenizer`
 * are not secret.
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
 * Returns a pattern for the user and password in a URL (RFC 3986 §3.2.1). JSON and JSON pointers may escape slashes.
 * The length limit of a password bounds the matching time.
 * @param endCharacters Characters that end a URL.
 */
function createUserinfoPattern(endCharacters: string): RegExp {
  const slashes = String.raw`(?:\\?/|~1){2}`;
  const lookbehind = String.raw`(?<=:${slashes}|(?:^|[\s"<>=,;(])${slashes})`;
  const password = String.raw`[^${endCharacters}/?#:@[\\]*:(?!\d{0,5}(?:[^\w:]|$))[^${endCharacters}]{0,1024}`;
  return new RegExp(String.raw`${lookbehind}(?:[^${endCharacters}/?#\\]+|${password})(?=@)`, 'g');
}

const USERINFO_PATTERN = createUserinfoPattern(String.raw`\s"<>`);
/** Pattern for the user and password in a string that is one URL. */
const URL_USERINFO_PATTERN = createUserinfoPattern(String.raw`\n`);

/** Pattern for `user:password@host` with a port, path or bracket. Without these, `npm:package@1.2` would match. */
const BARE_CREDENTIALS_PATTERN =
  /(?<=^|[\s"<>/=,;('`])(?!(?:acct|im|mailto|sips?|xmpp):)[^\s"<>:/\\=,;(@]{1,128}:[^\s"<>/\\]{1,256}(?=@[^\s"<>@:/\\(,;]{1,255}(?::\d{1,5}(?!\w)|[/\\(]))/gi;

/** Parameter separator and name. Some JSON encoders escape `&`. */
const PARAMETER_PATTERN = /(?:[?&#;]|\\u0026)([^\s"<>=&#?;\\]{1,64})=/g;
const SECRET_VALUE_PATTERN = /(?:(?!\\u0026)[^\s"<>&#])+/y;

/**
 * Masks URL credentials in text: users, passwords, and parameters with names such as `token`. Runs in linear time.
 */
export function maskCredentials(text: string): string {
  return replaceRanges(text, findCredentials(text));
}

/** Masks credentials in a record ID. An ID such as `ssh:root@host:22` contains no password. */
export function maskId(id: string): string {
  return replaceRanges(id, findCredentials(id, true));
}

/** Returns a copy of a JSON value with masked strings and keys. */
export function maskValue(value: unknown): unknown {
  if (typeof value === 'string') return maskCredentials(value);
  if (Array.isArray(value)) return value.map(maskValue);
  if (typeof value !== 'object' || value === null) return value;
  return Object.fromEntries(
    Object.entries(value).map(([key, member]) => [maskCredentials(key), maskValue(member)]),
  );
}

/** Returns a copy of a record with masked strings. */
export function maskRecord<T extends { id: string; url?: string | undefined }>(record: T): T {
  const { id, url } = record;
  return {
    // Masking preserves the type of each value.
    ...(maskValue(record) as T),
    id: maskId(id),
    ...(url !== undefined && {
      url: maskCredentials(replaceRanges(url, findRanges(URL_USERINFO_PATTERN, url))),
    }),
  };
}

/** Returns a copy of a finding with a masked record ID and pointer. Its message is masked already. */
export function maskFinding<T extends { recordId: string | null; pointer: string }>(finding: T): T {
  const { recordId, pointer } = finding;
  return {
    ...finding,
    recordId: recordId === null ? null : maskId(recordId),
    pointer: maskCredentials(pointer),
  };
}

/** Returns a URL without its user, password and secret parameters. */
export function removeCredentials(writtenUrl: string): string {
  const url = writtenUrl.trim();
  const userRanges = findRanges(URL_USERINFO_PATTERN, url);
  const secretValues = findSecretValues(url);
  const removedRanges = [
    ...userRanges.map(({ start, end }) => ({ start, end: end + 1 })),
    ...secretValues.map(({ nameStart, end }) => ({ start: nameStart, end })),
  ];
  const publicUrl = replaceRanges(url, sortRanges(removedRanges), '');
  return secretValues.length === 0
    ? publicUrl
    : publicUrl.replaceAll(/(?<=[?#])&+|[?#;&]+(?=[#?]|$)/g, '');
}

/** Returns the kind of credential in a URL, or null if there is none. */
export function detectCredential(writtenUrl: string): string | null {
  if (!/[@=]/.test(writtenUrl)) return null;
  const url = URL.parse(writtenUrl);
  if (url !== null && url.password !== '') return 'a password';
  if (url !== null && url.username !== '') return 'a user name';
  if (findSecretValues(writtenUrl).length > 0) return 'a secret in its query';
  return findRanges(URL_USERINFO_PATTERN, writtenUrl).length > 0 ? 'a password' : null;
}

/**
 * Finds credentials in text. The ranges are sorted and may overlap.
 * @param isId Whether the text is a record ID, in which `ssh:root@host:22` is an endpoint, not a credential.
 */
export function findCredentials(text: string, isId = false): TextRange[] {
  if (!/[@=]/.test(text)) return [];
  const bareCredentials = isId ? [] : findRanges(BARE_CREDENTIALS_PATTERN, text);
  return sortRanges([
    ...findRanges(USERINFO_PATTERN, text),
    ...bareCredentials,
    ...findSecretValues(text),
  ]);
}

/** Replaces text ranges with a mask. The ranges must be sorted. */
export function replaceRanges(text: string, ranges: readonly TextRange[], mask = MASK): string {
  const parts: string[] = [];
  let textStart = 0;
  for (const { start, end } of ranges) {
    if (end <= textStart) continue;
    parts.push(text.slice(textStart, Math.max(start, textStart)), mask);
    textStart = end;
  }
  return parts.length === 0 ? text : parts.join('') + text.slice(textStart);
}

function findRanges(expression: RegExp, text: string): TextRange[] {
  if (!text.includes('@')) return [];
  return Array.from(text.matchAll(expression), ({ 0: match, index }) => {
    return { start: index, end: index + match.length };
  });
}

/** Returns the ranges of secret parameter values, with the offset of each name. */
function findSecretValues(text: string): (TextRange & { nameStart: number })[] {
  const ranges: (TextRange & { nameStart: number })[] = [];
  let searchStart = 0;
  for (const { 0: prefix, 1: name = '', index } of text.matchAll(PARAMETER_PATTERN)) {
    if (index < searchStart || !SECRET_NAMES.has(name.toLowerCase().replaceAll(/[^a-z\d]/g, '')))
      continue;
    const start = index + prefix.length;
    SECRET_VALUE_PATTERN.lastIndex = start;
    const [value] = SECRET_VALUE_PATTERN.exec(text) ?? [];
    if (value === undefined) continue;
    searchStart = start + value.length;
    ranges.push({ nameStart: /[?#]/.test(prefix) ? index + 1 : index, start, end: searchStart });
  }
  return ranges;
}

function sortRanges(ranges: readonly TextRange[]): TextRange[] {
  return ranges.toSorted((a, b) => a.start - b.start);
}
