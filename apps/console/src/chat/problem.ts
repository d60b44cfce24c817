import { ChatError } from '@oselya/chat-client';
import { RequestError } from '../api.ts';

/** Returns the error of the chat as one of requests, which pages show with its code. */
export function toRequestError(error: unknown): Error {
  if (!(error instanceof ChatError))
    return error instanceof Error ? error : new Error(String(error));
  return error.problem === undefined
    ? error
    : new RequestError(error.problem.status, error.problem);
}
