import { MAX_RETRY_AFTER_MS, parseRetryAfter } from '@oselya/kit/retry-after';
import { Agent, type Dispatcher, request } from 'undici';
import { ModelError } from './errors.ts';
import type { ServerAddress, ServerVariables } from './options.ts';
import { extractTexts } from './quote.ts';
import { createStatusError } from './server-error.ts';

// The largest expected response has 64 embeddings of 4,096 numbers with about 22 characters each: 5.5 MiB.
const MEBIBYTE = 1024 * 1024;
const MAX_RESPONSE_BYTES = 16 * MEBIBYTE;
const MAX_ERROR_BYTES = 64 * 1024;

/**
 * Creates a `fetch` for the AI SDK that resolves only for a 2xx status. Redirects are not followed, because they would
 * send texts and possibly the key to a server that is not configured.
 * @param server.apiKey Key to remove from quoted error messages.
 * @throws ModelError MODEL_UNREACHABLE if the connection fails, MODEL_INVALID_OUTPUT if the response is too large, or
 *   an error for a different status. Rethrows the reason of an aborted signal.
 */
export function createTransport(server: Pick<ServerAddress, 'apiKey' | 'variables'>) {
  const { apiKey, variables } = server;
  // The call's deadline limits the time. The default timeouts of undici (300 s) would abort slow responses.
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
      throw signal?.aborted ? error : createUnreachableError(variables.baseUrl, error);
    }
    const { statusCode: status, headers: responseHeaders } = response;
    if (status < 200 || status > 299) {
      throw createStatusError({
        request: `${method} ${url.pathname}`,
        status,
        body: await readBeginning(response),
        retryAfterMs: readRetryAfterMs(responseHeaders),
        variables,
        apiKey,
        texts: body === null ? [] : extractTexts(JSON.parse(body)),
      });
    }
    const content = ReadableStream.from(limitSize(response, signal, variables));
    return new Response(content, {
      headers: { 'content-type': getFirstValue(responseHeaders['content-type']) },
    });
  };

  return { fetch, close: () => dispatcher.close() };
}

/**
 * Yields the chunks of a body, and throws if it exceeds the size limit. Closes the connection if the consumer stops
 * reading.
 */
async function* limitSize(
  { body }: Dispatcher.ResponseData,
  signal: AbortSignal | undefined,
  variables: ServerVariables,
): AsyncGenerator<Uint8Array> {
  let size = 0;
  try {
    for await (const chunk of body) {
      size += chunk.length;
      if (size > MAX_RESPONSE_BYTES) {
        const message = `The model server's answer is larger than ${MAX_RESPONSE_BYTES / MEBIBYTE} MiB.`;
        throw new ModelError('MODEL_INVALID_OUTPUT', message);
      }
      yield chunk;
    }
  } catch (error) {
    throw error instanceof ModelError || signal?.aborted
      ? error
      : createUnreachableError(variables.baseUrl, error);
  }
}

/** Reads the beginning of an error response. Returns an empty string if the connection breaks. */
async function readBeginning({ body }: Dispatcher.ResponseData): Promise<string> {
  let beginning = Buffer.alloc(0);
  try {
    for await (const chunk of body) {
      beginning = Buffer.concat([beginning, chunk]);
      if (beginning.length >= MAX_ERROR_BYTES) break;
    }
  } catch {
    return '';
  }
  return beginning.subarray(0, MAX_ERROR_BYTES).toString('utf8');
}

/**
 * Returns the delay in milliseconds that a server requests before the next call, at most `MAX_RETRY_AFTER_MS`.
 * `retry-after-ms`, a common extension, takes precedence over `retry-after`.
 */
function readRetryAfterMs(headers: Dispatcher.ResponseData['headers']): number | undefined {
  const milliseconds = Number(getFirstValue(headers['retry-after-ms']) || Number.NaN);
  if (milliseconds >= 0) return Math.min(milliseconds, MAX_RETRY_AFTER_MS);
  return parseRetryAfter(getFirstValue(headers['retry-after']));
}

const getFirstValue = (header: string | string[] | undefined): string => [header].flat()[0] ?? '';

/** Creates the error for a failed connection, with its code or its message as the reason. */
function createUnreachableError(variable: string, cause: unknown): ModelError {
  const { code, message } = Object(cause) as { code?: string; message?: string };
  const reason = code || message || 'the connection failed';
  return new ModelError(
    'MODEL_UNREACHABLE',
    `The model server cannot be reached (${reason}). Check that it runs at ${variable}.`,
    { cause },
  );
}
