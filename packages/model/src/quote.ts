const MAX_QUOTE_LENGTH = 300;
/** Maximum length of the processed part of a message, to limit the work for long echoes. */
const MAX_PROCESSED_LENGTH = 4 * MAX_QUOTE_LENGTH;
/** Minimum number of consecutive characters that count as an echo of the request. */
const MIN_ECHO_LENGTH = 16;

/** ConfidentialParts parts of a request, which are removed from quotes. */
export type ConfidentialParts = {
  apiKey?: string | undefined;
  /** Texts of the request, without the instructions. */
  texts?: readonly string[];
};

/** Patterns of secrets that a message of a server or proxy may contain, with their replacements. */
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
 * Prepares a message of a server for display and logs: one line of at most 300 characters, without keys, credentials in
 * URLs, and echoes of the request.
 */
export function quote(text: string, { apiKey, texts = [] }: ConfidentialParts = {}): string {
  const known = apiKey === undefined ? text : text.replaceAll(apiKey, '[key]');
  const masked = SECRETS.reduce(
    (rest, [pattern, replacement]) => rest.replace(pattern, replacement),
    known.slice(0, MAX_PROCESSED_LENGTH),
  );
  const line = removeEcho(masked, texts).replace(/\s+/g, ' ').trim();
  return line.length <= MAX_QUOTE_LENGTH ? line : `${line.slice(0, MAX_QUOTE_LENGTH - 1)}…`;
}

/** Returns the texts in the body of a request, without system messages. */
export function extractTexts(request: unknown): string[] {
  const { messages, input } = Object(request) as { messages?: unknown; input?: unknown };
  const sent = Object.values(Object(messages)).filter(
    (message) => Object(message).role !== 'system',
  );
  return collectStrings([sent, input]);
}

/** Returns all strings in a value except `data:` URLs. */
function collectStrings(value: unknown): string[] {
  if (typeof value === 'string') return value.startsWith('data:') ? [] : [value];
  return Object.values(Object(value)).flatMap(collectStrings);
}

function removeEcho(text: string, texts: readonly string[]): string {
  const isEcho = (part: string) => texts.some((sent) => sent.includes(part));
  let rest = '';
  let start = 0;
  while (start < text.length) {
    let end = start + MIN_ECHO_LENGTH;
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
