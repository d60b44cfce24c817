import { Type } from 'typebox';
import { Value } from 'typebox/value';
import { parseJson } from './json.ts';
import { oneLine } from './terminal.ts';

const TIMEOUT_MS = 60_000;

/** A hundred listings with the longest texts are 20 MB. */
const LONGEST_ANSWER_BYTES = 64 * 1024 * 1024;

/** What a server is asked. */
export type HttpRequest = {
  method?: 'GET' | 'POST' | undefined;
  headers?: Record<string, string> | undefined;
  /** Is sent as JSON. */
  body?: object | undefined;
};

/** What a server answered. */
export type HttpAnswer = {
  status: number;
  headers: Headers;
  /** The parsed JSON; undefined where it is none, or has more than 64 MiB. */
  body: unknown;
};

/**
 * Asks a server. Redirects are not followed: they would carry a key or a cookie elsewhere.
 * @throws As `fetch` does, also where no answer comes within a minute: `reasonOf` says why in a few words.
 */
export async function request(
  url: string,
  { method = 'GET', headers = {}, body }: HttpRequest,
): Promise<HttpAnswer> {
  const answer = await fetch(url, {
    method,
    headers: {
      ...(body !== undefined && { 'content-type': 'application/json' }),
      ...headers,
    },
    ...(body !== undefined && { body: JSON.stringify(body) }),
    redirect: 'manual',
    signal: AbortSignal.timeout(TIMEOUT_MS),
  });
  const text = await readText(answer);
  const parsed = text === undefined ? undefined : parseJson(text);
  return { status: answer.status, headers: answer.headers, body: parsed };
}

/** The text of an answer; undefined where it is too long, whose rest is not read. */
async function readText({ body }: Response): Promise<string | undefined> {
  const chunks: Uint8Array[] = [];
  let length = 0;
  for await (const chunk of body ?? []) {
    length += chunk.length;
    if (length > LONGEST_ANSWER_BYTES) return undefined;
    chunks.push(chunk);
  }
  return new TextDecoder().decode(Buffer.concat(chunks));
}

/** Why a request came to nothing, in a few words, such as `ECONNREFUSED`. */
export function reasonOf(error: unknown): string {
  if (!(error instanceof Error)) return String(error);
  if (error.name === 'TimeoutError') return `no answer within ${TIMEOUT_MS / 1000} s`;
  // fetch itself says only that it failed; the system's code is in its cause.
  const { cause } = error;
  return cause instanceof Error
    ? ((cause as NodeJS.ErrnoException).code ?? cause.message)
    : error.message;
}

/** As much of a problem as is told (RFC 9457; Contract 2). */
const problemSchema = Type.Object({
  title: Type.String(),
  detail: Type.Optional(Type.String()),
  errors: Type.Optional(Type.Array(Type.Object({ path: Type.String(), message: Type.String() }))),
});

/** What a problem says, each in one line; undefined for what is no problem. RFC 9457. */
export function problemText(body: unknown): { title: string; text: string } | undefined {
  if (!Value.Check(problemSchema, body)) return undefined;
  const { title, detail = title, errors = [] } = body;
  const rules = errors.map(({ path, message }) => `${path} ${message}`).join('; ');
  return { title: oneLine(title), text: oneLine(rules || detail) };
}
