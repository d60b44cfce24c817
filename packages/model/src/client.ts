import type { Static, TSchema } from 'typebox';
import { type BreakerView, createBreaker, joinBreakers } from './breaker.ts';
import { type ChatPart, type ChatRequest, streamChat } from './chat.ts';
import { createTextLimit, embed, type EmbedOptions, type EmbedResult } from './embed.ts';
import { ModelError, type ModelErrorCode } from './errors.ts';
import { createGate } from './gate.ts';
import { createMockBackend } from './mock-model.ts';
import { createOpenAIBackend, type ModelHealth } from './openai.ts';
import type { CallKind, ModelClientOptions } from './options.ts';
import { createRetry } from './retry.ts';
import { generateObject, type ObjectRequest, type ObjectResult } from './structured.ts';
import type { ModelCallEvent } from './usage.ts';

/** Language model client. All failures except programming errors are of type `ModelError`. */
export type ModelClient = {
  /**
   * Requests a completion that follows a schema, and validates it.
   * @throws ModelError MODEL_UNSUPPORTED for an image if `MODEL_VISION=off`, and all codes of a request.
   */
  generateObject<S extends TSchema>(request: ObjectRequest<S>): Promise<ObjectResult<Static<S>>>;
  /** Continues a conversation, and yields the parts of the completion. */
  streamChat(request: ChatRequest): AsyncGenerator<ChatPart, void, undefined>;
  /** Returns validated embeddings in the order of the texts. */
  embed(texts: readonly string[], options?: EmbedOptions): Promise<EmbedResult>;
  /** Configured name of the chat model. Responses may contain a different name. */
  readonly chatModel: string;
  /** Configured name of the vision model. Undefined if `MODEL_VISION=off`. */
  readonly visionModel: string | undefined;
  /** Configured name of the embedding model, empty if there is none. Vectors are comparable only within one model. */
  readonly embeddingModel: string;
  /** Combined breaker of chat, vision and embeddings. It is open if any of them is open. */
  readonly breaker: BreakerView;
  /** Requests the list of models from each server within 5 s (or `timeoutMs`, if shorter), bypassing the breaker. */
  health(options?: { signal?: AbortSignal }): Promise<ModelHealth & { mode: 'mock' | 'openai' }>;
  /** Rejects further calls with MODEL_CLOSED, and waits for the calls in progress. */
  close(): Promise<void>;
};

const HEALTH_TIMEOUT_MS = 5_000;

/**
 * Creates a model client (Contract 4, Model). Validation, repair, retries, breakers and metrics work the same in both
 * modes.
 * @throws ModelError MODEL_MISCONFIGURED with the name of the variable, without its value.
 */
export function createModelClient(options: ModelClientOptions): ModelClient {
  const { mode, timeoutMs, embeddingDimensions: dimensions } = options;
  const backend = mode === 'mock' ? createMockBackend(options) : createOpenAIBackend(options);
  const retry = createRetry({
    timeoutMs,
    attempts: options.retry?.attempts ?? 3,
    initialDelayMs: options.retry?.initialDelayMs ?? 500,
    maxDelayMs: options.retry?.maxDelayMs ?? 10_000,
  });
  // One breaker per use. With a shared breaker, successful chat requests would reset the failure count of embeddings.
  const createModelBreaker = () =>
    createBreaker({
      failures: options.breaker?.failures ?? 5,
      halfOpenAfterMs: options.breaker?.halfOpenAfterMs ?? 30_000,
      maxWaitMs: timeoutMs,
    });
  const breakers = {
    chat: createModelBreaker(),
    vision: createModelBreaker(),
    embedding: createModelBreaker(),
  };
  // One gate per address, because uses of the same server share its context.
  const gates = new Map(Object.values(backend.addresses).map((address) => [address, createGate()]));
  const lastFailures = createLastFailures();
  const createLane = <M>(kind: CallKind, model: M) => {
    const address = backend.addresses[kind];
    const gate = gates.get(address) ?? createGate();
    const observe = (event: ModelCallEvent) => {
      lastFailures.record(kind, event);
      options.observe?.(event);
    };
    return { model, address, retry, gate, breaker: breakers[kind], observe };
  };
  const chat = createLane('chat', backend.chat);
  const vision = backend.vision && createLane('vision', backend.vision);
  const embedding = {
    ...createLane('embedding', backend.embedding),
    dimensions,
    textLimit: createTextLimit(),
  };
  const conversation = {
    ...chat,
    timeoutMs,
    chatModel: (name: string | undefined) =>
      name === undefined ? backend.chat : backend.chatModel(name),
  };

  const callsInProgress = new Set<Promise<unknown>>();
  let closePromise: Promise<void> | undefined;

  /** Registers a call until the returned value is disposed. `close` waits for these calls, and rejects later ones. */
  function registerCall(): Disposable {
    if (closePromise) throw new ModelError('MODEL_CLOSED', 'The model client has been closed.');
    const callEnd = Promise.withResolvers<void>();
    callsInProgress.add(callEnd.promise);
    return {
      [Symbol.dispose]() {
        callsInProgress.delete(callEnd.promise);
        callEnd.resolve();
      },
    };
  }

  return {
    async generateObject(request) {
      using _ = registerCall();
      const usedLane = request.image ? vision : chat;
      if (usedLane !== undefined) return await generateObject(usedLane, request);
      throw new ModelError('MODEL_UNSUPPORTED', 'MODEL_VISION is off: no image is described.');
    },
    async *streamChat(request) {
      using _ = registerCall();
      yield* streamChat(conversation, request);
    },
    async embed(texts, request = {}) {
      using _ = registerCall();
      return await embed(embedding, texts, request);
    },
    chatModel: backend.chat.modelId,
    visionModel: backend.vision?.modelId,
    embeddingModel: backend.embedding.modelId,
    breaker: joinBreakers(Object.values(breakers)),
    async health({ signal } = {}) {
      if (closePromise)
        return { status: 'down', detail: 'The model client has been closed.', mode };
      const timeoutSignal = AbortSignal.timeout(Math.min(HEALTH_TIMEOUT_MS, timeoutMs));
      const health = await backend.health(
        signal ? AbortSignal.any([signal, timeoutSignal]) : timeoutSignal,
      );
      const failureDescription = lastFailures.describe();
      if (health.status === 'down' || failureDescription === '') return { ...health, mode };
      return { status: 'failing', detail: failureDescription, mode };
    },
    close: () => (closePromise ??= Promise.allSettled(callsInProgress).then(() => backend.close())),
  };
}

/** Failures caused by the caller. They do not affect the health. */
const CALLER_FAILURE_CODES = new Set<string>([
  'MODEL_ABORTED',
  'MODEL_CLOSED',
] satisfies ModelErrorCode[]);

/** Failures of a single input. Many consecutive ones mean that the server cannot process usual inputs. */
const INPUT_FAILURE_CODES = new Set<string>([
  'MODEL_INPUT_TOO_LARGE',
  'MODEL_REFUSED',
  'MODEL_TRUNCATED',
] satisfies ModelErrorCode[]);

/** Number of consecutive input failures of one use from which the health is `failing`. */
const MAX_INPUT_FAILURES = 5;

/** Creates a tracker of the last failure per use. A server that lists its models may still fail all requests. */
function createLastFailures() {
  const reasons = new Map<CallKind, string>();
  const inputFailureCounts = new Map<CallKind, number>();
  return {
    record(kind: CallKind, { outcome, reason = '' }: ModelCallEvent): void {
      if (outcome === 'ok') {
        reasons.delete(kind);
        inputFailureCounts.delete(kind);
      } else if (INPUT_FAILURE_CODES.has(outcome)) {
        const failureCount = (inputFailureCounts.get(kind) ?? 0) + 1;
        inputFailureCounts.set(kind, failureCount);
        if (failureCount >= MAX_INPUT_FAILURES) reasons.set(kind, reason);
      } else if (!CALLER_FAILURE_CODES.has(outcome)) {
        inputFailureCounts.delete(kind);
        reasons.set(kind, reason);
      }
    },
    describe: () =>
      Array.from(reasons, ([kind, reason]) => `The last ${kind} request failed: ${reason}`).join(
        ' ',
      ),
  };
}
