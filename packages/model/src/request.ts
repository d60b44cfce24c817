import {
  AISDKError,
  APICallError,
  InvalidResponseDataError,
  JSONParseError,
  TypeValidationError,
} from '@ai-sdk/provider';
import type { Attempt, Breaker } from './breaker.ts';
import { ModelError } from './errors.ts';
import type { Gate } from './gate.ts';
import type { ServerAddress } from './options.ts';
import { quote, extractTexts } from './quote.ts';
import type { CallContext, Retry } from './retry.ts';
import { parseServerError } from './server-error.ts';
import { type ModelCallEvent, NO_TOKENS, type Observer, type Tokens } from './usage.ts';

/** Model with the retry, gate and breaker of its requests. */
export type Lane<M> = {
  model: M;
  address: Pick<ServerAddress, 'variables' | 'apiKey'>;
  retry: Retry;
  gate: Gate;
  breaker: Breaker;
  observe: Observer;
};

/** Request that the gate and the breaker admitted. It must be ended with `end` or `fail`. */
type AdmittedRequest = {
  tokens: Tokens;
  /** Records the success of a probe before its response is complete. */
  recordProbeSuccess(): void;
  /** Ends the request with success, or because the consumer stopped reading. Has no effect after the first end. */
  end(outcome: 'ok' | 'MODEL_ABORTED'): void;
  /** Ends the request with a failure, and converts the failure to a ModelError. Rethrows a programming error. */
  fail(error: unknown, getInterruption: CallContext['getInterruption']): ModelError;
};

/** Request options. The lane's observer gets the same events as `observe`. */
type RequestOptions = {
  operation: string;
  /** Describes the expected response, and the setting to check if the response differs. */
  expectedResponse: string;
  observe?: Observer | undefined;
};

/**
 * Waits until the gate and the breaker admit a request.
 * @throws ModelError MODEL_BREAKER_OPEN, MODEL_CONTEXT_FULL, MODEL_ABORTED.
 */
export async function openRequest(
  lane: Omit<Lane<unknown>, 'model' | 'retry'>,
  context: CallContext,
  { operation, expectedResponse, observe }: RequestOptions,
): Promise<AdmittedRequest> {
  const leaveGate = await lane.gate.enter(context);
  let attempt: Attempt;
  try {
    attempt = lane.breaker.enter();
  } catch (error) {
    leaveGate();
    throw error;
  }
  const startedAt = performance.now();
  let isEnded = false;

  function report(outcome: ModelCallEvent['outcome'], reason?: string): void {
    const durationMs = performance.now() - startedAt;
    const reasonDetails = reason === undefined ? {} : { reason };
    const event = { operation, outcome, ...reasonDetails, durationMs, ...request.tokens };
    observe?.(event);
    lane.observe(event);
  }

  const request: AdmittedRequest = {
    tokens: NO_TOKENS,
    recordProbeSuccess() {
      if (attempt.isProbe) attempt.end();
    },
    end(outcome) {
      if (isEnded) return;
      isEnded = true;
      report(outcome);
      if (outcome === 'ok') attempt.end();
      leaveGate();
    },
    fail(error, getInterruption) {
      const failure = toModelError(error, {
        expectedResponse,
        getInterruption,
        address: lane.address,
      });
      if (!isEnded) {
        isEnded = true;
        if (failure) report(failure.code, failure.message);
        attempt.end(failure ?? error);
        leaveGate(failure);
      }
      if (failure === undefined) throw error;
      return failure;
    },
  };
  return request;
}

/**
 * Sends one request and reads its response.
 * @param options.read Extracts the value from the response. Throws a ModelError if the response is invalid.
 * @throws ModelError with any code except MODEL_CLOSED and MODEL_MISCONFIGURED.
 */
export async function sendRequest<A, T>(
  lane: Lane<unknown>,
  context: CallContext,
  options: RequestOptions & {
    send: (signal: AbortSignal) => PromiseLike<A>;
    tokens: (response: A) => Tokens;
    read: (response: A) => T;
  },
): Promise<T> {
  const request = await openRequest(lane, context, options);
  try {
    const response = await options.send(context.signal);
    request.tokens = options.tokens(response);
    const value = options.read(response);
    request.end('ok');
    return value;
  } catch (error) {
    throw request.fail(error, () => context.getInterruption());
  }
}

type ErrorContext = {
  expectedResponse: string;
  getInterruption: CallContext['getInterruption'];
  address: Lane<unknown>['address'];
};

/** Converts an SDK, transport or signal error. Returns undefined for a programming error. */
function toModelError(error: unknown, context: ErrorContext): ModelError | undefined {
  // The SDK wraps transport errors.
  for (let cause = error; cause instanceof Error; cause = cause.cause) {
    if (cause instanceof ModelError) return cause;
  }
  const interruptionError = context.getInterruption();
  if (interruptionError) return interruptionError;
  if (
    APICallError.isInstance(error) ||
    InvalidResponseDataError.isInstance(error) ||
    JSONParseError.isInstance(error) ||
    TypeValidationError.isInstance(error)
  ) {
    return new ModelError('MODEL_INVALID_OUTPUT', describeUnexpectedResponse(error, context));
  }
  if (AISDKError.isInstance(error)) return new ModelError('MODEL_REJECTED', error.message);
  return undefined;
}

function describeUnexpectedResponse(
  error: AISDKError,
  { expectedResponse, address }: ErrorContext,
): string {
  if (JSONParseError.isInstance(error) || JSONParseError.isInstance(error.cause)) {
    return `The model server responded with something that is not JSON. Check ${address.variables.baseUrl}, which ends in /v1.`;
  }
  const message = `The model server's answer is not ${expectedResponse}`;
  const serverError = APICallError.isInstance(error) && parseServerError(error.responseBody ?? '');
  if (!serverError) return message;
  const texts = extractTexts(error.requestBodyValues);
  return `${message} It says: ${quote(serverError.message, { apiKey: address.apiKey, texts })}`;
}
