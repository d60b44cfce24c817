import {
  AISDKError,
  APICallError,
  InvalidResponseDataError,
  JSONParseError,
  TypeValidationError,
} from '@ai-sdk/provider';
import { ModelError } from './errors.ts';
import { type ModelCallEvent, openReport } from './call-event.ts';
import type { Breaker } from './resilience/breaker.ts';
import type { CallContext } from './resilience/call-policy.ts';
import type { Gate } from './resilience/gate.ts';
import type { ServerAddress } from './options.ts';
import { quote, textsIn } from './transport/quote.ts';
import { parseServerError } from './transport/server-error.ts';
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

/** The settings of the server that a request goes to, for error messages, and its key, which is in none. */
export type Addressee = Pick<ServerAddress, 'variables' | 'apiKey'>;

/** Makes one request to the server. */
export type Exchanger = <A, T>(exchange: Exchange<A, T>) => Promise<T>;

/**
 * Joins the gate, the breaker and the metrics around single requests: each request that is really made is
 * judged and reported once, under one of our codes.
 */
export function createExchanger(deps: {
  gate: Gate;
  breaker: Breaker;
  address: Addressee;
  observe?: ((event: ModelCallEvent) => void) | undefined;
}): Exchanger {
  const { gate, breaker, address } = deps;

  function exchange<A, T>(request: Exchange<A, T>): Promise<T> {
    const { operation, expected, context, send, tokens, read, observe } = request;
    return breaker.run(async () => {
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
        const failure = modelError(error, { expected, context, address });
        report.end(failure);
        throw failure;
      }
      report.end('ok');
      return value;
    });
  }

  return (request) => gate.run(request.context, () => exchange(request));
}

/** Names what the SDK, the transport or the signal threw. Anything else is a fault of ours. */
export function modelError(
  error: unknown,
  {
    expected,
    context,
    address,
  }: { expected: string; context: Pick<CallContext, 'interruption'>; address: Addressee },
): ModelError {
  const own = ownError(error);
  if (own) return own;
  const interruption = context.interruption();
  if (interruption) return interruption;
  if (
    APICallError.isInstance(error) ||
    InvalidResponseDataError.isInstance(error) ||
    JSONParseError.isInstance(error) ||
    TypeValidationError.isInstance(error)
  ) {
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
  error: AISDKError,
  { expected, address }: { expected: string; address: Addressee },
): string {
  if (JSONParseError.isInstance(error) || JSONParseError.isInstance(error.cause)) {
    return `The model server answered with something that is not JSON. Check ${address.variables.baseUrl}, which ends in /v1.`;
  }
  const answer = `The model server's answer is not ${expected}`;
  if (!APICallError.isInstance(error)) return answer;
  const said = parseServerError(error.responseBody ?? '');
  if (said === undefined) return answer;
  const { apiKey } = address;
  const texts = textsIn(error.requestBodyValues);
  return `${answer} It says: ${quote(said.message, { apiKey, texts })}`;
}
