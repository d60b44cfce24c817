import { CommandError } from './command-error.ts';
import { type HttpAnswer, type HttpRequest, problemText, reasonOf, request } from './http.ts';

/** Where a collector is, and the key that it may ask for. */
export type CollectorAddress = { url: string; apiKey: string | undefined };

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
 * Asks a running collector.
 * @param path Below its address, such as `/api/v1/ingest`.
 * @throws UnreachableError.
 */
export async function requestCollector(
  { url, apiKey }: CollectorAddress,
  path: string,
  { headers, ...rest }: HttpRequest = {},
): Promise<HttpAnswer> {
  try {
    return await request(url.replace(/\/+$/, '') + path, {
      headers: {
        ...(apiKey !== undefined && { authorization: `Bearer ${apiKey}` }),
        ...headers,
      },
      ...rest,
    });
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
  { status, body }: HttpAnswer,
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
