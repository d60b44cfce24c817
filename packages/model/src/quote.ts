const MAX_QUOTE = 300;
/** The part of a server's sentence that is read, so that the echo of a long request is cut off first. */
const MAX_READ = 4 * MAX_QUOTE;
/** The length of a run of characters that counts as an echo of the request. */
const MIN_ECHO = 16;

/** Parts of a request that must not be repeated. */
export type Confidential = {
  apiKey?: string | undefined;
  /** The texts that were sent, without the instructions. */
  texts?: readonly string[];
};

/** Patterns of secrets that a server or a proxy may repeat, with their replacements. */
const SECRETS: readonly (readonly [pattern: RegExp, replacement: string])[] = [
  [/(\b[a-z][a-z\d+.-]*:\/\/)[^\s/@"']+@/gi, '$1[credentials]@'],
  [/\b(bearer|basic)\s+[\w.~+/=-]{8,}/gi, '$1 [key]'],
  [
    /((?:\b(?:api[_-]?key|access[_-]?token|secret|password)|[?&](?:key|token))["']?\s*[=:]\s*["']?)[^\s"'&,;]{6,}/gi,
    '$1[key]',
  ],
  [/\b(?:sk|pk|hf|gsk|xai|nvapi)[-_][\w*-]{8,}/g, '[key]'],
];

/**
 * Makes a server's sentence fit to be shown and logged: one line of at most 300 characters, without keys, credentials
 * in addresses, and echoes of the request's texts.
 */
export function quote(text: string, { apiKey, texts = [] }: Confidential = {}): string {
  const known = apiKey === undefined ? text : text.replaceAll(apiKey, '[key]');
  const masked = SECRETS.reduce(
    (rest, [pattern, replacement]) => rest.replace(pattern, replacement),
    known.slice(0, MAX_READ),
  );
  const line = withoutEcho(masked, texts).replace(/\s+/g, ' ').trim();
  return line.length <= MAX_QUOTE ? line : `${line.slice(0, MAX_QUOTE - 1)}…`;
}

/** Returns the texts in the body of a request: words of users and payloads, no instructions. */
export function textsIn(request: unknown): string[] {
  const { messages, input } = Object(request) as { messages?: unknown; input?: unknown };
  const said = Array.isArray(messages)
    ? messages.filter((message) => Object(message).role !== 'system')
    : [];
  return [...stringsIn(said), ...stringsIn(input)];
}

/** Returns all strings of a value except addresses that hold an image. */
function stringsIn(value: unknown): string[] {
  if (typeof value === 'string') return value.startsWith('data:') ? [] : [value];
  return Object.values(Object(value)).flatMap(stringsIn);
}

function withoutEcho(text: string, texts: readonly string[]): string {
  const isEcho = (part: string) => texts.some((sent) => sent.includes(part));
  let rest = '';
  let start = 0;
  while (start < text.length) {
    let end = start + MIN_ECHO;
    if (end > text.length || !isEcho(text.slice(start, end))) {
      rest += text[start];
      start += 1;
      continue;
    }
    while (end < text.length && isEcho(text.slice(start, end + 1))) end += 1;
    rest += '[…]';
    start = end;
  }
  return rest;
}
