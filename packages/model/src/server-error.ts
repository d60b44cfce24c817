import { ModelError, type ModelErrorCode, type TokenCounts } from './errors.ts';
import type { ServerVariables } from './options.ts';
import { type Confidential, quote } from './quote.ts';

/** An error as a server describes it, whatever its form. */
export type ServerError = {
  message: string;
  /** Such as `invalid_request_error`; empty when it names none. */
  type: string;
  /** Such as `context_length_exceeded`, or a status as text; empty when it names none. */
  code: string;
};

/**
 * Reads an error out of a server's JSON. Known forms:
 *
 * - OpenAI, llama.cpp, vLLM, Ollama under `/v1`: `{"error": {"message": "…", "type": "…", "code": …}}`
 * - Ollama's own: `{"error": "…"}`
 * - older vLLM: `{"object": "error", "message": "…", "type": "…", "code": 400}`
 * - FastAPI: `{"detail": "…"}`
 *
 * @returns Undefined for an unknown form, so that an answer which is no error is never quoted.
 */
export function readServerError(body: unknown): ServerError | undefined {
  const { error, message, detail, ...rest } = Object(body) as Record<string, unknown>;
  const inner = Object(error) as Record<string, unknown>;
  if (typeof error === 'object' && typeof inner['message'] === 'string') {
    return { message: inner['message'], ...kindOf(inner) };
  }
  const said = [error, message, detail].find((candidate) => typeof candidate === 'string');
  return said === undefined ? undefined : { message: said, ...kindOf(rest) };
}

/** Reads an error out of a text that may be JSON. */
export function parseServerError(text: string): ServerError | undefined {
  try {
    return readServerError(JSON.parse(text));
  } catch {
    return undefined;
  }
}

function kindOf({ type, code }: Record<string, unknown>): { type: string; code: string } {
  const isCode = typeof code === 'string' || typeof code === 'number';
  return { type: typeof type === 'string' ? type : '', code: isCode ? String(code) : '' };
}

/** llama.cpp: all requests in progress fail together when their shared context is full. */
const CONTEXT_FULL = /context size has been exceeded/i;

const TOO_LARGE = [
  // llama.cpp: of a batch, or of the context.
  /too large to process/i,
  /(?:exceeds?|larger than|longer than) the (?:available|max|maximum|model)\b.{0,30}\b(?:context|model) (?:size|length)/i,
  // Ollama
  /input (?:length )?exceeds .{0,30}context length/i,
  // vLLM, OpenAI
  /maximum (?:context|input) length/i,
  /longer than the maximum model length/i,
  // Text Embeddings Inference
  /must have less than \d+ tokens/i,
];

const UNSUPPORTED = [
  // llama.cpp, and Ollama in front of it
  /(?:image|audio|video)s? input is not supported/i,
  /does not support (?:multimodal requests|(?:image|vision|audio|video)s?\b)/i,
  // Ollama
  /missing data required for image/i,
  // vLLM
  /is not a multimodal model/i,
  /at most 0 image/i,
  // OpenAI
  /image_url is only supported by/i,
];

/**
 * Chooses the code of an error by its message, and by its status where the message says nothing (Contract 4, Model):
 * 408, 409, 425, 429 and 5xx are retryable, all others are not. llama.cpp answers 500 for inputs that it rejects.
 */
function codeOf(status: number, error: ServerError | undefined): ModelErrorCode {
  if (error !== undefined && (status >= 500 || [400, 413, 422].includes(status))) {
    const { message, type, code } = error;
    const says = (forms: readonly RegExp[]) => forms.some((form) => form.test(message));
    if (status >= 500 && CONTEXT_FULL.test(message)) return 'MODEL_CONTEXT_FULL';
    if (type === 'not_supported_error' || says(UNSUPPORTED)) return 'MODEL_UNSUPPORTED';
    const isTooLarge = type === 'exceed_context_size_error' || code === 'context_length_exceeded';
    if (isTooLarge || says([CONTEXT_FULL, ...TOO_LARGE])) return 'MODEL_INPUT_TOO_LARGE';
  }
  if (status === 429) return 'MODEL_RATE_LIMITED';
  const isRetryable = status >= 500 || [408, 409, 425].includes(status);
  return isRetryable ? 'MODEL_UNAVAILABLE' : 'MODEL_REJECTED';
}

const COUNTS = /(\d+) (?:input )?tokens|(?:length(?: of)?|batch size:|given:) (\d+)/gi;

/** Reads the sizes in a message: the largest number is the input's, the smallest the limit. */
function tokensIn(message: string): TokenCounts {
  const counts = [...message.matchAll(COUNTS)].map(([, before, after]) => Number(before ?? after));
  if (counts.length === 0) return {};
  const limit = Math.min(...counts);
  const given = Math.max(...counts);
  return given > limit ? { given, limit } : { limit };
}

function judged(
  message: string,
  status: number,
  error: ServerError | undefined,
  retryAfterMs?: number,
): ModelError {
  const code = codeOf(status, error);
  const tokens = code === 'MODEL_INPUT_TOO_LARGE' ? tokensIn(error?.message ?? '') : undefined;
  return new ModelError(code, message, { status, retryAfterMs, tokens });
}

/** An answer whose status is not 2xx. */
export type FailedAnswer = {
  /** Such as `POST /v1/chat/completions`. */
  request: string;
  status: number;
  /** The beginning of the body; empty when it could not be read. */
  body: string;
  retryAfterMs?: number | undefined;
  variables: ServerVariables;
} & Confidential;

/** Creates the error of an answer by its status and body (Contract 4, Model). */
export function statusError(answer: FailedAnswer): ModelError {
  const { request, status, body, retryAfterMs, variables, ...confidential } = answer;
  const error = parseServerError(body);
  const said = error === undefined ? plainText(body) : error.message;
  const text = sentence(`The model server answered ${status} to ${request}`, said, confidential);
  return judged(`${text} ${advice(status, variables)}`.trim(), status, error, retryAfterMs);
}

/**
 * Creates the error that a server sends in the middle of a stream, which began with status 200. Its own status is the
 * error's `code` (llama.cpp, vLLM), or follows from its type (OpenAI, Ollama).
 */
export function streamError(error: ServerError, confidential: Confidential): ModelError {
  const message = 'The model server ended its answer with an error';
  return judged(sentence(message, error.message, confidential), statusOf(error), error);
}

function statusOf({ type, code }: ServerError): number {
  const status = Number(code);
  if (status >= 400 && status <= 599) return status;
  const kind = `${type} ${code}`;
  if (/rate_?limit|too_?many|quota/i.test(kind)) return 429;
  const isRejection =
    /invalid|bad_?request|not_?found|authentication|permission|context_length|exceed_context/i;
  return isRejection.test(kind) ? 400 : 500;
}

function advice(status: number, { baseUrl, apiKey }: ServerVariables): string {
  if (status >= 300 && status < 400) return `Set ${baseUrl} to the address it redirects to.`;
  if (status === 401 || status === 403) return `Check ${apiKey}.`;
  if (status === 404) return `Check ${baseUrl}, which ends in /v1, and the name of the model.`;
  return '';
}

/** Returns a short plain text, as proxies send, but neither pages nor JSON of an unknown form. */
function plainText(body: string): string | undefined {
  const text = body.trim();
  if (text.startsWith('<')) return 'an HTML page instead of JSON';
  return text === '' || text.startsWith('{') || text.startsWith('[') ? undefined : text;
}

function sentence(text: string, said: string | undefined, confidential: Confidential): string {
  const line = said === undefined ? text : `${text}: ${quote(said, confidential)}`;
  return /[.!?…]$/.test(line) ? line : `${line}.`;
}
