import { MAX_RETRY_AFTER_MS, parseRetryAfter } from '@oselya/kit/retry-after';
import { Agent, type Dispatcher, request } from 'undici';
import { ModelError } from './errors.ts';
import type { ServerAddress, ServerVariables } from './options.ts';
import { textsIn } from './quote.ts';
import { statusError } from './server-error.ts';

/** Response headers as undici gives them: lower-case names, repeated headers as a list. */
export type ResponseHeaders = Record<string, string | string[] | undefined>;

/** The connection to one model server. */
export type Transport = {
  /**
   * A `fetch` for the AI SDK. It resolves to 2xx answers only.
   * @throws ModelError MODEL_UNREACHABLE when the connection fails, the error of a status that is not 2xx,
   *   MODEL_INVALID_OUTPUT when the answer is too large; the reason of an aborted signal.
   */
  fetch: typeof globalThis.fetch;
  /** Closes the connections once nothing uses them. */
  close: () => Promise<void>;
};

// The largest honest answer holds 64 embeddings of 4,096 numbers of about 22 characters: 6 MiB.
const MAX_ANSWER_BYTES = 16 * 1024 * 1024;
const MAX_ERROR_BYTES = 64 * 1024;

/**
 * Creates the transport to a model server. Redirects are not followed, since they would carry the texts, and perhaps
 * the key, to an address nobody has configured.
 * @param server Its key is removed from quoted error messages.
 */
export function createTransport(server: Pick<ServerAddress, 'apiKey' | 'variables'>): Transport {
  const { apiKey, variables } = server;
  // Undici's limits of 300 s would end long answers of slow machines; the deadline of the call is the limit.
  const dispatcher = new Agent({ headersTimeout: 0, bodyTimeout: 0 });

  const fetch: typeof globalThis.fetch = async (input, init) => {
    const url = new URL(input instanceof Request ? input.url : input);
    const method = init?.method === 'POST' ? 'POST' : 'GET';
    const headers = Object.fromEntries(new Headers(init?.headers));
    const body = typeof init?.body === 'string' ? init.body : null;
    const signal = init?.signal ?? undefined;
    let response: Dispatcher.ResponseData;
    try {
      response = await request(url, { method, headers, body, signal, dispatcher });
    } catch (error) {
      throw signal?.aborted ? error : unreachable(variables.baseUrl, error);
    }
    const { statusCode: status, headers: received } = response;
    if (status < 200 || status > 299) {
      throw statusError({
        request: `${method} ${url.pathname}`,
        status,
        body: await beginningOf(response),
        retryAfterMs: retryAfterMs(received, Date.now()),
        variables,
        apiKey,
        texts: body === null ? [] : textsIn(JSON.parse(body)),
      });
    }
    const answer = ReadableStream.from(bounded(response, signal, variables));
    return new Response(answer, { headers: { 'content-type': first(received['content-type']) } });
  };

  return { fetch, close: () => dispatcher.close() };
}

/** Passes the body on while it is read. A reader that stops ends the connection. */
async function* bounded(
  { body }: Dispatcher.ResponseData,
  signal: AbortSignal | undefined,
  variables: ServerVariables,
): AsyncGenerator<Uint8Array> {
  let size = 0;
  try {
    for await (const chunk of body) {
      size += chunk.length;
      if (size > MAX_ANSWER_BYTES) {
        const limit = MAX_ANSWER_BYTES / 1024 / 1024;
        const message = `The model server's answer is larger than ${limit} MiB.`;
        throw new ModelError('MODEL_INVALID_OUTPUT', message);
      }
      yield chunk;
    }
  } catch (error) {
    throw error instanceof ModelError || signal?.aborted
      ? error
      : unreachable(variables.baseUrl, error);
  }
}

/** Reads the beginning of an error's body; a connection that breaks takes nothing from the status. */
async function beginningOf({ body }: Dispatcher.ResponseData): Promise<string> {
  const chunks: Uint8Array[] = [];
  let size = 0;
  try {
    for await (const chunk of body) {
      chunks.push(chunk);
      size += chunk.length;
      if (size >= MAX_ERROR_BYTES) break;
    }
  } catch {
    return '';
  }
  return Buffer.concat(chunks).subarray(0, MAX_ERROR_BYTES).toString('utf8');
}

/**
 * Returns how long a server asks not to be called.
 * @param headers `retry-after-ms` (milliseconds, a common extension) goes before `retry-after`.
 * @param now The present, in milliseconds since the epoch, that a date is measured from.
 * @returns Milliseconds, at most `MAX_RETRY_AFTER_MS`; undefined when the server does not say.
 */
export function retryAfterMs(headers: ResponseHeaders, now: number): number | undefined {
  const milliseconds = Number(first(headers['retry-after-ms']) || Number.NaN);
  if (milliseconds >= 0) return Math.min(milliseconds, MAX_RETRY_AFTER_MS);
  return parseRetryAfter(first(headers['retry-after']), now);
}

const first = (header: string | string[] | undefined): string => [header].flat()[0] ?? '';

/** Names the code of a connection's error, or its message where there is none. */
function unreachable(variable: string, cause: unknown): ModelError {
  const { code, message } = Object(cause) as { code?: string; message?: string };
  const reason = code || message || 'the connection failed';
  return new ModelError(
    'MODEL_UNREACHABLE',
    `The model server cannot be reached (${reason}). Is it running at ${variable}?`,
    { cause },
  );
}
