import { isRecord } from '../is-record.ts';

const MAX_QUOTE = 300;
/** What is looked through of a server's sentence; an echo of a long request is cut off before. */
const MAX_READ = 4 * MAX_QUOTE;
/** A run of so many characters that the request has too is taken out of the request. */
const MIN_ECHO = 16;

/** What must not be repeated of a request. */
export type Confidential = {
  apiKey?: string | undefined;
  /** The texts that were sent, without the instructions. */
  texts?: readonly string[];
};

/** Patterns of secrets that a server or a proxy may repeat, and what is quoted in their place. */
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
 * Makes what a server says fit to be shown and logged: one line of at most 300 characters, without keys, credentials
 * in addresses and whatever it repeats of the request's texts.
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

/** The texts in the body of a request: what users and payloads say, and no instructions. */
export function textsIn(request: unknown): string[] {
  if (!isRecord(request)) return [];
  const { messages, input } = request;
  const said = Array.isArray(messages)
    ? messages.filter((message) => isRecord(message) && message['role'] !== 'system')
    : [];
  return [...stringsIn(said), ...stringsIn(input)];
}

/** All strings of a value that may be people's words: no addresses that hold an image. */
function stringsIn(value: unknown): string[] {
  if (typeof value === 'string') return value.startsWith('data:') ? [] : [value];
  return isRecord(value) ? Object.values(value).flatMap(stringsIn) : [];
}

function withoutEcho(text: string, texts: readonly string[]): string {
  const isEchoed = (part: string) => texts.some((sent) => sent.includes(part));
  let rest = '';
  let start = 0;
  while (start < text.length) {
    let end = start + MIN_ECHO;
    if (end > text.length || !isEchoed(text.slice(start, end))) {
      rest += text[start];
      start += 1;
      continue;
    }
    while (end < text.length && isEchoed(text.slice(start, end + 1))) end += 1;
    rest += '[…]';
    start = end;
  }
  return rest;
}
