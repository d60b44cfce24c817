import { isRecord } from '../is-record.ts';

const LONGEST_MESSAGE = 300;

/**
 * Reads the sentence that explains an error out of a server's answer. Known forms:
 *
 * - OpenAI, llama.cpp, Ollama under `/v1`: `{"error": {"message": "…"}}`
 * - Ollama's own: `{"error": "…"}`
 * - vLLM: `{"object": "error", "message": "…"}`
 * - FastAPI and what is built on it: `{"detail": "…"}`
 *
 * @param body The answer's body.
 * @returns One line of at most 300 characters; nothing when the form is not known, so that an
 *   answer which is no error is never quoted.
 */
export function serverMessage(body: string): string | undefined {
  const message = messageIn(parsed(body));
  return message === undefined ? undefined : oneLine(message);
}

/** Puts a text on one line and cuts it to the length an error message may quote. */
export function oneLine(text: string): string {
  const line = text.replace(/\s+/g, ' ').trim();
  return line.length <= LONGEST_MESSAGE ? line : `${line.slice(0, LONGEST_MESSAGE - 1)}…`;
}

function messageIn(value: unknown): string | undefined {
  if (!isRecord(value)) return undefined;
  const { error, message, detail } = value;
  if (isRecord(error) && typeof error['message'] === 'string') return error['message'];
  return [error, message, detail].find((candidate) => typeof candidate === 'string');
}

function parsed(body: string): unknown {
  try {
    return JSON.parse(body);
  } catch {
    return undefined;
  }
}
