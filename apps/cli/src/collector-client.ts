import { Type } from 'typebox';
import { Value } from 'typebox/value';
import { CommandError } from './command-error.ts';
import { oneLine } from './terminal.ts';

const TIMEOUT_MS = 60_000;

/** As much of a problem as is told (RFC 9457; Contract 2). */
const problemSchema = Type.Object({
  title: Type.String(),
  detail: Type.Optional(Type.String()),
  errors: Type.Optional(Type.Array(Type.Object({ path: Type.String(), message: Type.String() }))),
});

/** Where a collector is, and the key that it may ask for. */
export type CollectorAddress = { url: string; apiKey: string | undefined };

export type CollectorAnswer = {
  status: number;
  headers: Headers;
  /** The parsed JSON; undefined where it is none. */
  body: unknown;
};

/** The collector did not answer: it may do so later. */
export class UnreachableError extends CommandError {
  /** In a few words, such as `ECONNREFUSED`. */
  readonly reason: string;

  constructor(url: string, reason: string, cause: unknown) {
    super(
      `the collector at ${url} cannot be reached (${reason}): start it with npm start, or set COLLECTOR_URL to where it is`,
      { cause },
    );
    this.reason = reason;
  }
}

/**
 * Sends JSON to a running collector. Redirects are not followed: they would carry the key elsewhere.
 * @throws UnreachableError.
 */
export async function postToCollector(
  { url, apiKey }: CollectorAddress,
  path: string,
  body: object,
  headers: Record<string, string> = {},
): Promise<CollectorAnswer> {
  try {
    const answer = await fetch(url.replace(/\/+$/, '') + path, {
      method: 'POST',
      headers: {
        'content-type': 'application/json',
        ...(apiKey === undefined ? {} : { authorization: `Bearer ${apiKey}` }),
        ...headers,
      },
      body: JSON.stringify(body),
      redirect: 'manual',
      signal: AbortSignal.timeout(TIMEOUT_MS),
    });
    return { status: answer.status, headers: answer.headers, body: parseJson(await answer.text()) };
  } catch (cause) {
    throw new UnreachableError(url, reasonOf(cause), cause);
  }
}

/** What answered is something else than a collector. */
export function noCollector(url: string): CommandError {
  return new CommandError(
    `what answers at ${url} is no collector: set COLLECTOR_URL to the address of one`,
  );
}

/**
 * Why the collector refused, and what to do where that is not in its own words.
 * @param what Was refused, such as `the search`.
 * @param scope A key for it has this scope.
 */
export function refusal(
  { status, body }: CollectorAnswer,
  { what, scope }: { what: string; scope: string },
): string {
  const refused = `the collector refused ${what} (${status})`;
  const said = problemText(body);
  if (said === undefined) {
    return `${refused} without a reason: set COLLECTOR_URL to the address of a collector`;
  }
  if (status === 401) {
    return `${refused}: ${said.title}: set COLLECTOR_API_KEY to one with the scope ${scope}; npx oselya api-key create makes one`;
  }
  return `${refused}: ${said.text}`;
}

/** What a problem says, each in one line; undefined for what is no problem. RFC 9457. */
export function problemText(body: unknown): { title: string; text: string } | undefined {
  if (!Value.Check(problemSchema, body)) return undefined;
  const { title, detail = title, errors = [] } = body;
  const rules = errors.map(({ path, message }) => `${path} ${message}`).join('; ');
  return { title: oneLine(title), text: oneLine(rules || detail) };
}

/** What JSON says; undefined for what is none. */
export function parseJson(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
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
