import { Value } from 'typebox/value';
import { CommandError } from '../command-error.ts';
import { oneLine } from '../terminal.ts';
import { type Answer, answerSchema, problemSchema } from './answer.ts';

const TIMEOUT_MS = 60_000;

/**
 * Has the collector search.
 * @param kind The search's name in the API. Contract 4, Search.
 * @returns All that the collector answered, of which `Answer` is known.
 * @throws CommandError where it cannot be reached, refuses, or is no collector.
 */
export async function askCollector(
  collector: { url: string; apiKey: string | undefined },
  kind: 'fulltext' | 'similar',
  question: { query: string; limit: number },
): Promise<Answer> {
  const { status, body } = await post(collector, `/api/v1/search/${kind}`, question);
  if (status === 200 && Value.Check(answerSchema, body)) return body;
  if (status >= 400) throw new CommandError(refusal(status, body));
  throw new CommandError(
    `what answers at ${collector.url} is no collector: set COLLECTOR_URL to the address of one`,
  );
}

async function post(
  { url, apiKey }: { url: string; apiKey: string | undefined },
  path: string,
  body: object,
): Promise<{ status: number; body: unknown }> {
  try {
    const answer = await fetch(url.replace(/\/+$/, '') + path, {
      method: 'POST',
      headers: {
        'content-type': 'application/json',
        ...(apiKey === undefined ? {} : { authorization: `Bearer ${apiKey}` }),
      },
      body: JSON.stringify(body),
      signal: AbortSignal.timeout(TIMEOUT_MS),
    });
    return { status: answer.status, body: parse(await answer.text()) };
  } catch (cause) {
    throw new CommandError(
      `the collector at ${url} cannot be reached (${reason(cause)}): start it with npm start, or set COLLECTOR_URL to where it is`,
      { cause },
    );
  }
}

function parse(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

function reason(error: unknown): string {
  if (!(error instanceof Error)) return String(error);
  if (error.name === 'TimeoutError') return `no answer within ${TIMEOUT_MS / 1000} s`;
  // fetch itself says only that it failed; the system's code is in its cause.
  const { cause } = error;
  return cause instanceof Error
    ? ((cause as NodeJS.ErrnoException).code ?? cause.message)
    : error.message;
}

/** What the collector has against the search, and what to do where that is not in its own words. */
function refusal(status: number, body: unknown): string {
  const refused = `the collector refused the search (${status})`;
  if (!Value.Check(problemSchema, body)) {
    return `${refused} without a reason: set COLLECTOR_URL to the address of a collector`;
  }
  const { title, detail = title, errors = [] } = body;
  if (status === 401) {
    return `${refused}: ${oneLine(title)}: set COLLECTOR_API_KEY to one with the scope search; npx oselya api-key create makes one`;
  }
  const rules = errors.map(({ path, message }) => `${path} ${message}`).join('; ');
  return `${refused}: ${oneLine(rules || detail)}`;
}
