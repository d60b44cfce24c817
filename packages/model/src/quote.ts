const MAX_QUOTE_LENGTH = 300;
/** Maximum number of processed characters, to limit the work for long echoes. */
const MAX_PROCESSED_LENGTH = 4 * MAX_QUOTE_LENGTH;
/** Minimum number of consecutive characters that count as an echo of the request. */
const MIN_ECHO_LENGTH = 16;

/** Parts of a request that quotes must not contain. */
export type ConfidentialParts = {
  apiKey?: string | undefined;
  /** Request texts, without the instructions. */
  texts?: readonly string[];
};

/** Patterns of secrets that a message of a server or proxy may contain, with their replacements. */
const SECRET_PATTERNS: readonly (readonly [pattern: RegExp, replacement: string])[] = [
  [/(\b[a-z][a-z\d+.-]*:\/\/)[^\s/@"']+@/gi, '$1[credentials]@'],
  [/\b(bearer|basic)\s+[\w.~+/=-]{8,}/gi, '$1 [key]'],
  [
    /((?:\b(?:api[_-]?key|access[_-]?token|secret|password)|[?&](?:key|token))["']?\s*[=:]\s*["']?)[^\s"'&,;]{6,}/gi,
    '$1[key]',
  ],
  [/\b(?:sk|pk|hf|gsk|xai|nvapi)[-_][\w*-]{8,}/g, '[key]'],
];

/**
 * Prepares a server message for display and logs: one line of at most 300 characters, without keys, credentials in
 * URLs, or long echoes of the request texts.
 */
export function quote(text: string, { apiKey, texts = [] }: ConfidentialParts = {}): string {
  const textWithoutKey = apiKey === undefined ? text : text.replaceAll(apiKey, '[key]');
  const maskedText = SECRET_PATTERNS.reduce(
    (partialText, [pattern, replacement]) => partialText.replace(pattern, replacement),
    textWithoutKey.slice(0, MAX_PROCESSED_LENGTH),
  );
  const line = removeEcho(maskedText, texts).replace(/\s+/g, ' ').trim();
  return line.length <= MAX_QUOTE_LENGTH ? line : `${line.slice(0, MAX_QUOTE_LENGTH - 1)}…`;
}

/** Returns the texts in the body of a request, without system messages. */
export function extractTexts(request: unknown): string[] {
  const { messages, input } = Object(request) as { messages?: unknown; input?: unknown };
  const sentMessages = Object.values(Object(messages)).filter(
    (message) => Object(message).role !== 'system',
  );
  return collectStrings([sentMessages, input]);
}

/** Returns all strings in a value except `data:` URLs. */
function collectStrings(value: unknown): string[] {
  if (typeof value === 'string') return value.startsWith('data:') ? [] : [value];
  return Object.values(Object(value)).flatMap(collectStrings);
}

function removeEcho(text: string, texts: readonly string[]): string {
  const isEcho = (part: string) => texts.some((requestText) => requestText.includes(part));
  let output = '';
  let start = 0;
  while (start < text.length) {
    let end = start + MIN_ECHO_LENGTH;
    if (end > text.length || !isEcho(text.slice(start, end))) {
      output += text[start];
      start += 1;
      continue;
    }
    while (end < text.length && isEcho(text.slice(start, end + 1))) end += 1;
    output += '[…]';
    start = end;
  }
  return output;
}
