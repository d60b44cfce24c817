import { isRecord } from '../is-record.ts';

/** What a server says of an error, whatever form it says it in. */
export type ServerError = {
  /** The sentence that explains it. */
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
 * - FastAPI and what is built on it: `{"detail": "…"}`
 *
 * @returns Nothing when the form is not known, so that an answer which is no error is never quoted.
 */
export function readServerError(body: unknown): ServerError | undefined {
  if (!isRecord(body)) return undefined;
  const { error, message, detail } = body;
  if (isRecord(error) && typeof error['message'] === 'string') {
    return { message: error['message'], ...kindIn(error) };
  }
  const said = [error, message, detail].find((candidate) => typeof candidate === 'string');
  return said === undefined ? undefined : { message: said, ...kindIn(body) };
}

/** The same of a text that may be JSON. */
export function parseServerError(text: string): ServerError | undefined {
  try {
    return readServerError(JSON.parse(text));
  } catch {
    return undefined;
  }
}

function kindIn({ type, code }: Record<string, unknown>): Pick<ServerError, 'type' | 'code'> {
  return {
    type: typeof type === 'string' ? type : '',
    code: typeof code === 'string' || typeof code === 'number' ? String(code) : '',
  };
}
