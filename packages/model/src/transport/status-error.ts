import { ModelError, type ModelErrorCode, type ModelErrorDetails } from '../errors.ts';
import type { ServerVariables } from '../options.ts';
import { oneLine, serverMessage } from './server-message.ts';

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
};

/**
 * Names the failure an HTTP status stands for (Contract 4, Model): 408, 409, 425, 429 and 5xx may be
 * tried again, everything else may not.
 */
export function statusError(answer: FailedAnswer): ModelError {
  const { request, status, body, retryAfterMs, variables } = answer;
  const said = serverMessage(body) ?? plainText(body);
  const message = `The model server answered ${status} to ${request}${said === undefined ? '' : `: ${said}`}`;
  const details: ModelErrorDetails = { status };
  if (retryAfterMs !== undefined) details.retryAfterMs = retryAfterMs;
  return new ModelError(
    codeOf(status),
    [sentence(message), hint(status, variables)].join(' ').trim(),
    details,
  );
}

function codeOf(status: number): ModelErrorCode {
  if (status === 429) return 'MODEL_RATE_LIMITED';
  if (status >= 500 || [408, 409, 425].includes(status)) return 'MODEL_UNAVAILABLE';
  return 'MODEL_REJECTED';
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
  return text === '' || text.startsWith('{') || text.startsWith('[') ? undefined : oneLine(text);
}

function sentence(text: string): string {
  return /[.!?…]$/.test(text) ? text : `${text}.`;
}
