import {
  AISDKError,
  APICallError,
  InvalidResponseDataError,
  JSONParseError,
} from '@ai-sdk/provider';
import { ModelError } from './errors.ts';
import { type ModelCallEvent, openReport } from './call-event.ts';
import type { Breaker } from './resilience/breaker.ts';
import type { CallContext } from './resilience/call-policy.ts';
import { serverMessage } from './transport/server-message.ts';
import type { Tokens } from './usage.ts';

/** One request to the server: how to send it, and how to read what comes back. */
export type Exchange<A, T> = {
  /** What the request is for, as metrics name it. */
  operation: string;
  /** What the answer must be, and what to check when it is not, for the error message. */
  expected: string;
  context: CallContext;
  send: (signal: AbortSignal) => Promise<A>;
  /** What the answer cost, be it of use or not. */
  tokens: (answer: A) => Tokens;
  /** @throws ModelError when the answer cannot be used. */
  read: (answer: A) => T;
  /** Told of the request when it has ended, beside the client's own observer. */
  observe: (event: ModelCallEvent) => void;
};

/** Makes one request to the server. */
export type Exchanger = <A, T>(exchange: Exchange<A, T>) => Promise<T>;

/**
 * Joins the breaker and the metrics around single requests: each request that is really made is
 * judged and reported once, under one of our codes.
 *
 * @param deps.address The variable that says where the server is, for error messages.
 */
export function createExchanger(deps: {
  breaker: Breaker;
  address: string;
  observe?: ((event: ModelCallEvent) => void) | undefined;
}): Exchanger {
  return ({ operation, expected, context, send, tokens, read, observe }) =>
    deps.breaker.run(async () => {
      const report = openReport(operation, (event) => {
        observe(event);
        deps.observe?.(event);
      });
      let value;
      try {
        const answer = await send(context.signal);
        report.tokens = tokens(answer);
        value = read(answer);
      } catch (error) {
        const failure = modelError(error, { expected, context, address: deps.address });
        report.end(failure.code);
        throw failure;
      }
      report.end('ok');
      return value;
    });
}

/** Names what the SDK, the transport or the signal threw. Anything else is a fault of ours. */
export function modelError(
  error: unknown,
  {
    expected,
    context,
    address,
  }: { expected: string; context: Pick<CallContext, 'interruption'>; address: string },
): ModelError {
  const own = ownError(error);
  if (own) return own;
  const interruption = context.interruption();
  if (interruption) return interruption;
  if (APICallError.isInstance(error) || InvalidResponseDataError.isInstance(error)) {
    return new ModelError('MODEL_INVALID_OUTPUT', unreadable(error, { expected, address }));
  }
  if (AISDKError.isInstance(error)) return new ModelError('MODEL_REJECTED', error.message);
  throw error;
}

/** The SDK wraps errors of connections in its own; ours is somewhere beneath. */
function ownError(error: unknown): ModelError | undefined {
  let current = error;
  while (current instanceof Error) {
    if (current instanceof ModelError) return current;
    current = current.cause;
  }
  return undefined;
}

/** The transport lets 2xx answers through only, so these are answers that are not what they should be. */
function unreadable(
  error: APICallError | InvalidResponseDataError,
  { expected, address }: { expected: string; address: string },
): string {
  if (JSONParseError.isInstance(error.cause)) {
    return `The model server answered with something that is not JSON. Check ${address}, which ends in /v1.`;
  }
  const body = APICallError.isInstance(error) ? error.responseBody : undefined;
  const said = body === undefined ? undefined : serverMessage(body);
  return `The model server's answer is not ${expected}${said === undefined ? '' : ` It says: ${said}`}`;
}
