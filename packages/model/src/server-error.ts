import { ModelError, type ModelErrorCode, type TokenCounts } from './errors.ts';
import type { ServerVariables } from './options.ts';
import { type ConfidentialParts, quote } from './quote.ts';

/**
 * Error in a response of a server. The type (`invalid_request_error`) and the code (`context_length_exceeded`, or a
 * status) are empty if there are none.
 */
type ServerError = { message: string; type: string; code: string };

/**
 * Extracts an error from the JSON of a server. Supported formats:
 *
 * - OpenAI, llama.cpp, vLLM, Ollama under `/v1`: `{"error": {"message": "…", "type": "…", "code": …}}`
 * - Ollama's native API: `{"error": "…"}`
 * - older vLLM: `{"object": "error", "message": "…", "type": "…", "code": 400}`
 * - FastAPI: `{"detail": "…"}`
 *
 * @returns The error, or undefined for an unknown format, so that ordinary responses are never quoted.
 */
export function readServerError(body: unknown): ServerError | undefined {
  const { error, message, detail, ...topLevelFields } = Object(body) as Record<string, unknown>;
  const innerError = Object(error) as Record<string, unknown>;
  if (typeof error === 'object' && typeof innerError['message'] === 'string') {
    return { message: innerError['message'], ...readKind(innerError) };
  }
  const text = [error, message, detail].find((candidate) => typeof candidate === 'string');
  return text === undefined ? undefined : { message: text, ...readKind(topLevelFields) };
}

/** Extracts an error from a body that may be JSON. */
export function parseServerError(text: string): ServerError | undefined {
  try {
    return readServerError(JSON.parse(text));
  } catch {
    return undefined;
  }
}

function readKind({ type, code }: Record<string, unknown>): { type: string; code: string } {
  const isCode = typeof code === 'string' || typeof code === 'number';
  return { type: typeof type === 'string' ? type : '', code: isCode ? String(code) : '' };
}

/** Message of llama.cpp when its shared context is full. All requests in progress then fail. */
const CONTEXT_FULL_PATTERN = /context size has been exceeded/i;

const TOO_LARGE_MESSAGES = [
  // llama.cpp: batch or context limit
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

const UNSUPPORTED_MESSAGES = [
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
 * Selects the code of an error by its message, or by its status if the message is not specific (Contract 4, Model).
 * 408, 409, 425, 429 and 5xx are retryable. The message comes first, because llama.cpp rejects inputs with 500.
 */
function selectErrorCode(status: number, error: ServerError | undefined): ModelErrorCode {
  if (error !== undefined && (status >= 500 || [400, 413, 422].includes(status))) {
    const { message, type, code } = error;
    const matchesAny = (patterns: readonly RegExp[]) =>
      patterns.some((pattern) => pattern.test(message));
    if (status >= 500 && CONTEXT_FULL_PATTERN.test(message)) return 'MODEL_CONTEXT_FULL';
    if (type === 'not_supported_error' || matchesAny(UNSUPPORTED_MESSAGES))
      return 'MODEL_UNSUPPORTED';
    const isTooLarge = type === 'exceed_context_size_error' || code === 'context_length_exceeded';
    if (isTooLarge || matchesAny([CONTEXT_FULL_PATTERN, ...TOO_LARGE_MESSAGES]))
      return 'MODEL_INPUT_TOO_LARGE';
  }
  if (status === 429) return 'MODEL_RATE_LIMITED';
  const isRetryable = status >= 500 || [408, 409, 425].includes(status);
  return isRetryable ? 'MODEL_UNAVAILABLE' : 'MODEL_REJECTED';
}

const TOKEN_COUNT_PATTERN = /(\d+) (?:input )?tokens|(?:length(?: of)?|batch size:|given:) (\d+)/gi;

/** Extracts token counts from a message. The largest number is the input, the smallest or only one is the limit. */
function extractTokenCounts(message: string): TokenCounts {
  const counts = [...message.matchAll(TOKEN_COUNT_PATTERN)].map(([, before, after]) =>
    Number(before ?? after),
  );
  if (counts.length === 0) return {};
  const limit = Math.min(...counts);
  const inputTokens = Math.max(...counts);
  return inputTokens > limit ? { inputTokens, limit } : { limit };
}

function createModelError(
  message: string,
  status: number,
  error: ServerError | undefined,
  retryAfterMs?: number,
): ModelError {
  const code = selectErrorCode(status, error);
  const isTooLarge = code === 'MODEL_INPUT_TOO_LARGE';
  const tokens = isTooLarge ? extractTokenCounts(error?.message ?? '') : undefined;
  return new ModelError(code, message, { status, retryAfterMs, tokens });
}

/** Response with a status other than 2xx, the beginning of its body, and its request (`POST /v1/embeddings`). */
type FailedResponse = {
  request: string;
  status: number;
  body: string;
  retryAfterMs?: number | undefined;
  variables: ServerVariables;
} & ConfidentialParts;

/** Creates the error for a response by its status and body (Contract 4, Model). */
export function createStatusError(response: FailedResponse): ModelError {
  const { request, status, body, retryAfterMs, variables, ...confidentialParts } = response;
  const error = parseServerError(body);
  const text = formatSentence(
    `The model server responded with status ${status} to ${request}`,
    error?.message ?? extractPlainText(body),
    confidentialParts,
  );
  const message = `${text} ${formatAdvice(status, variables)}`.trim();
  return createModelError(message, status, error, retryAfterMs);
}

/**
 * Creates the error for a stream that fails after it began with status 200. The status of the error is its `code`
 * (llama.cpp, vLLM), or is derived from its type and code (OpenAI, Ollama).
 */
export function createStreamError(
  error: ServerError,
  confidentialParts: ConfidentialParts,
): ModelError {
  const text = 'The model server ended its answer with an error';
  const message = formatSentence(text, error.message, confidentialParts);
  return createModelError(message, deriveStatus(error), error);
}

function deriveStatus({ type, code }: ServerError): number {
  const status = Number(code);
  if (status >= 400 && status <= 599) return status;
  const kind = `${type} ${code}`;
  if (/rate_?limit|too_?many|quota/i.test(kind)) return 429;
  const rejectionPattern =
    /invalid|bad_?request|not_?found|authentication|permission|context_length|exceed_context/i;
  return rejectionPattern.test(kind) ? 400 : 500;
}

function formatAdvice(status: number, { baseUrl, apiKey }: ServerVariables): string {
  if (status >= 300 && status < 400) return `Set ${baseUrl} to the URL it redirects to.`;
  if (status === 401 || status === 403) return `Check ${apiKey}.`;
  if (status === 404) return `Check ${baseUrl}, which ends in /v1, and the name of the model.`;
  return '';
}

/** Returns a plain-text body, as some proxies send. Ignores JSON, and replaces HTML with a description. */
function extractPlainText(body: string): string | undefined {
  const text = body.trim();
  if (text.startsWith('<')) return 'an HTML page instead of JSON';
  return text === '' || text.startsWith('{') || text.startsWith('[') ? undefined : text;
}

function formatSentence(
  text: string,
  reason: string | undefined,
  confidentialParts: ConfidentialParts,
): string {
  const line = reason === undefined ? text : `${text}: ${quote(reason, confidentialParts)}`;
  return /[.!?…]$/.test(line) ? line : `${line}.`;
}
