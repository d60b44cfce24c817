import type { ModelErrorCode, TokenCounts } from '../errors.ts';
import type { ServerError } from './server-error.ts';

/** What a server's error means, and the sizes that it names of an input that is too large. */
export type Verdict = { code: ModelErrorCode; tokens?: TokenCounts };

/** llama.cpp: all requests in progress fail together, where their shared context is full. */
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
 * Judges an error by what the server says of it, and by its status where that says nothing (Contract 4, Model): 408,
 * 409, 425, 429 and 5xx may be tried again, all else may not. llama.cpp answers 500 for inputs that it does not take.
 */
export function judgeError(status: number, error: ServerError | undefined): Verdict {
  if (error !== undefined && (status >= 500 || [400, 413, 422].includes(status))) {
    const { message, type, code } = error;
    if (status >= 500 && CONTEXT_FULL.test(message)) return { code: 'MODEL_CONTEXT_FULL' };
    if (type === 'not_supported_error' || UNSUPPORTED.some((form) => form.test(message))) {
      return { code: 'MODEL_UNSUPPORTED' };
    }
    if (
      type === 'exceed_context_size_error' ||
      code === 'context_length_exceeded' ||
      CONTEXT_FULL.test(message) ||
      TOO_LARGE.some((form) => form.test(message))
    ) {
      return { code: 'MODEL_INPUT_TOO_LARGE', tokens: tokensIn(message) };
    }
  }
  if (status === 429) return { code: 'MODEL_RATE_LIMITED' };
  const isPassing = status >= 500 || [408, 409, 425].includes(status);
  return { code: isPassing ? 'MODEL_UNAVAILABLE' : 'MODEL_REJECTED' };
}

const COUNTS = /(\d+) (?:input )?tokens|(?:length(?: of)?|batch size:|given:) (\d+)/gi;

/** The largest number of a sentence is what was given, the smallest what is allowed. */
function tokensIn(message: string): TokenCounts {
  const counts = [...message.matchAll(COUNTS)].map(([, before, after]) => Number(before ?? after));
  if (counts.length === 0) return {};
  const limit = Math.min(...counts);
  const given = Math.max(...counts);
  return given > limit ? { given, limit } : { limit };
}
