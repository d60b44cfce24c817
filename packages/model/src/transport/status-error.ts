import { ModelError, type ModelErrorDetails } from '../errors.ts';
import type { ServerVariables } from '../options.ts';
import { judgeError } from './judge-error.ts';
import { type Confidential, quote } from './quote.ts';
import { parseServerError, type ServerError } from './server-error.ts';

/** An answer whose status is not 2xx. */
export type FailedAnswer = {
  /** What was asked for, such as `POST /v1/chat/completions`. */
  request: string;
  status: number;
  /** The beginning of the body; empty when it could not be read. */
  body: string;
  retryAfterMs?: number | undefined;
  /** The settings of the server that answered. */
  variables: ServerVariables;
} & Confidential;

/** Names the failure of an answer by its status and its body (Contract 4, Model). */
export function statusError({ request, body, ...answer }: FailedAnswer): ModelError {
  const { status, retryAfterMs, variables, ...confidential } = answer;
  const error = parseServerError(body);
  const said = error === undefined ? plainText(body) : error.message;
  const message = [
    sentence(withQuote(`The model server answered ${status} to ${request}`, said, confidential)),
    hint(status, variables),
  ];
  return judged(message.join(' ').trim(), { status, error, retryAfterMs });
}

/**
 * Names the failure that a server tells of in the middle of a stream, which begins with status 200. Its own status is
 * the error's `code` where that is one (llama.cpp, vLLM), or follows from its type (OpenAI, Ollama).
 */
export function streamError(error: ServerError, confidential: Confidential): ModelError {
  const message = 'The model server ended its answer with an error';
  return judged(sentence(withQuote(message, error.message, confidential)), {
    status: statusOf(error),
    error,
  });
}

function judged(
  message: string,
  details: {
    status: number;
    error: ServerError | undefined;
    retryAfterMs?: number | undefined;
  },
): ModelError {
  const { status, error, retryAfterMs } = details;
  const { code, tokens } = judgeError(status, error);
  const known: ModelErrorDetails = {
    status,
    ...(retryAfterMs !== undefined && { retryAfterMs }),
    ...(tokens && { tokens }),
  };
  return new ModelError(code, message, known);
}

function statusOf({ type, code }: ServerError): number {
  const status = Number(code);
  if (status >= 400 && status <= 599) return status;
  if (/rate_?limit|too_?many|quota/i.test(`${type} ${code}`)) return 429;
  return /invalid|bad_?request|not_?found|authentication|permission|context_length|exceed_context/i.test(
    `${type} ${code}`,
  )
    ? 400
    : 500;
}

function hint(status: number, { baseUrl, apiKey }: ServerVariables): string {
  if (status >= 300 && status < 400) return `Set ${baseUrl} to the address it redirects to.`;
  if (status === 401 || status === 403) return `Check ${apiKey}.`;
  if (status === 404) return `Check ${baseUrl}, which ends in /v1, and the name of the model.`;
  return '';
}

/** Quotes a short plain text, as proxies send, but neither pages nor JSON of an unknown form. */
function plainText(body: string): string | undefined {
  const text = body.trim();
  if (text.startsWith('<')) return 'an HTML page instead of JSON';
  return text === '' || text.startsWith('{') || text.startsWith('[') ? undefined : text;
}

function withQuote(text: string, said: string | undefined, confidential: Confidential): string {
  return said === undefined ? text : `${text}: ${quote(said, confidential)}`;
}

function sentence(text: string): string {
  return /[.!?…]$/.test(text) ? text : `${text}.`;
}
