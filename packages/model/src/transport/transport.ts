import { Agent, request, type Dispatcher } from 'undici';
import { ModelError } from '../errors.ts';
import type { ServerAddress } from '../options.ts';
import { retryAfterMs } from './retry-after.ts';
import { textsIn } from './quote.ts';
import { statusError } from './status-error.ts';

/** The way to one model server. */
export type Transport = {
  /**
   * A `fetch` for the AI SDK and for ourselves. It resolves to 2xx answers only.
   *
   * @throws ModelError MODEL_UNREACHABLE when the connection fails, the error of its status when
   *   the answer is not 2xx, MODEL_INVALID_OUTPUT when it is too large. What an aborted signal
   *   throws is passed on as it is.
   */
  fetch: typeof globalThis.fetch;
  /** Closes the connections once nothing uses them. */
  close: () => Promise<void>;
};

// The largest honest answer holds 64 embeddings of 4,096 numbers of about 22 characters: 6 MiB.
const LARGEST_ANSWER_BYTES = 16 * 1024 * 1024;
const LARGEST_ERROR_BYTES = 64 * 1024;

/**
 * Makes the transport to a model server. Redirects are not followed, since they would carry the
 * texts, and perhaps the key, to an address nobody has configured.
 *
 * @param server Its key is taken out of whatever the server's error message repeats.
 */
export function createTransport(server: Pick<ServerAddress, 'apiKey' | 'variables'>): Transport {
  // Undici's own limits of 300 s would end long answers of slow machines; the deadline of the call
  // is the limit here.
  const agent = new Agent({ headersTimeout: 0, bodyTimeout: 0 });

  const fetch: typeof globalThis.fetch = async (input, init) => {
    const url = new URL(input instanceof Request ? input.url : input);
    const method = init?.method === 'POST' ? 'POST' : 'GET';
    const signal = init?.signal ?? undefined;
    try {
      const response = await request(url, {
        dispatcher: agent,
        method,
        headers: Object.fromEntries(new Headers(init?.headers)),
        body: textBody(init?.body),
        signal,
      });
      if (response.statusCode < 200 || response.statusCode > 299) {
        throw await failure(`${method} ${url.pathname}`, response, { ...server, sent: init?.body });
      }
      const type = String(response.headers['content-type'] ?? '');
      const isStream = type.startsWith('text/event-stream');
      const answer = isStream
        ? answerStream(response, { signal, explain })
        : await answerText(response);
      return new Response(answer, { headers: { 'content-type': type } });
    } catch (error) {
      if (error instanceof ModelError || signal?.aborted) throw error;
      throw explain(error);
    }
  };

  function explain(cause: unknown): ModelError {
    const message = unreachable(server.variables.baseUrl, cause);
    return new ModelError('MODEL_UNREACHABLE', message, { cause });
  }

  return { fetch, close: () => agent.close() };
}

function textBody(body: RequestInit['body']): string | null {
  if (body === undefined || body === null || typeof body === 'string') return body ?? null;
  throw new TypeError('The model transport sends texts only.');
}

async function answerText({ body }: Dispatcher.ResponseData): Promise<string> {
  const { text, complete } = await readUpTo(LARGEST_ANSWER_BYTES, body);
  if (complete) return text;
  throw tooLarge();
}

/**
 * An answer that is read while it comes. Whoever stops to read ends the connection.
 * @param options.explain Names what broke the connection.
 */
function answerStream(
  { body }: Dispatcher.ResponseData,
  { signal, explain }: { signal: AbortSignal | undefined; explain: (cause: unknown) => ModelError },
): ReadableStream<Uint8Array> {
  let size = 0;
  // What is buffered is still given after the reader has left, and a stream that is cancelled takes nothing more.
  let isCancelled = false;
  return new ReadableStream({
    start(controller) {
      body.on('data', (chunk: Buffer) => {
        if (isCancelled) return;
        size += chunk.length;
        if (size > LARGEST_ANSWER_BYTES) {
          body.destroy(tooLarge());
          return;
        }
        controller.enqueue(chunk);
        if ((controller.desiredSize ?? 0) <= 0) body.pause();
      });
      body.on('end', () => {
        if (!isCancelled) controller.close();
      });
      body.on('error', (error) => {
        const isKnown = error instanceof ModelError || signal?.aborted;
        controller.error(isKnown ? error : explain(error));
      });
    },
    pull() {
      body.resume();
    },
    cancel() {
      isCancelled = true;
      body.destroy();
    },
  });
}

function tooLarge(): ModelError {
  return new ModelError(
    'MODEL_INVALID_OUTPUT',
    `The model server's answer is larger than ${LARGEST_ANSWER_BYTES / 1024 / 1024} MiB.`,
  );
}

async function failure(
  asked: string,
  { statusCode, headers, body }: Dispatcher.ResponseData,
  {
    apiKey,
    variables,
    sent,
  }: Pick<ServerAddress, 'apiKey' | 'variables'> & { sent: RequestInit['body'] },
): Promise<ModelError> {
  // A status is known already: a connection that breaks afterwards takes nothing from it.
  const { text } = await readUpTo(LARGEST_ERROR_BYTES, body).catch(() => ({ text: '' }));
  return statusError({
    request: asked,
    status: statusCode,
    body: text,
    retryAfterMs: retryAfterMs(headers, Date.now()),
    variables,
    apiKey,
    texts: typeof sent === 'string' ? textsIn(JSON.parse(sent)) : [],
  });
}

/** Reads a body as UTF-8 and stops, leaving the rest unread, when the limit is passed. */
async function readUpTo(
  limit: number,
  body: AsyncIterable<Buffer>,
): Promise<{ text: string; complete: boolean }> {
  const chunks: Buffer[] = [];
  let size = 0;
  let complete = true;
  for await (const chunk of body) {
    chunks.push(chunk);
    size += chunk.length;
    complete = size <= limit;
    if (!complete) break;
  }
  return { text: Buffer.concat(chunks).subarray(0, limit).toString('utf8'), complete };
}

function unreachable(variable: string, error: unknown): string {
  const { code, message } = error instanceof Error ? describe(error) : { code: '', message: '' };
  const reason = code || message || 'the connection failed';
  return `The model server cannot be reached (${reason}). Is it running at ${variable}?`;
}

// A name with several addresses fails with an empty message and a code, a broken TLS handshake with
// both, an answer that is no HTTP with a message only.
function describe(error: Error): { code: string; message: string } {
  const code = 'code' in error && typeof error.code === 'string' ? error.code : '';
  return { code, message: error.message };
}
