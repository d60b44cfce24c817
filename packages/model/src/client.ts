import type { Static, TSchema } from 'typebox';
import { type BreakerView, createBreaker, joinBreakers } from './breaker.ts';
import { type ChatPart, type ChatRequest, streamChat } from './chat.ts';
import { createTextLimit, embed, type EmbedOptions, type EmbedResult } from './embed.ts';
import { ModelError, type ModelErrorCode } from './errors.ts';
import { createGate } from './gate.ts';
import { createMockBackend } from './mock-model.ts';
import { createOpenAIBackend, type ModelHealth } from './openai.ts';
import { type CallKind, checkNumbers, type ModelClientOptions, serverSettings } from './options.ts';
import { createRetry } from './retry.ts';
import { generateObject, type ObjectRequest, type ObjectResult } from './structured.ts';
import type { Observer } from './usage.ts';

/** The language model, as the apps use it. Every failure is a `ModelError`. */
export type ModelClient = {
  /** Returns a validated answer that follows a schema. */
  generateObject<S extends TSchema>(request: ObjectRequest<S>): Promise<ObjectResult<Static<S>>>;
  /** Continues a conversation, and yields the answer as it comes. */
  streamChat(request: ChatRequest): AsyncGenerator<ChatPart, void, undefined>;
  /** Returns validated embeddings in the order of the texts. */
  embed(texts: readonly string[], options?: EmbedOptions): Promise<EmbedResult>;
  /** The configured name of the chat model; servers may answer by another. */
  readonly chatModel: string;
  /** The configured name of the vision model; undefined where there is none (`MODEL_VISION=off`). */
  readonly visionModel: string | undefined;
  /** The configured name of the embedding model: vectors of different models cannot be compared. */
  readonly embeddingModel: string;
  /** The breakers of chat, vision and embeddings as one: open while any of them is. */
  readonly breaker: BreakerView;
  /**
   * Asks each server for its list of models, beside the breaker, within 5 s; `failing` while the last request of any
   * kind has failed.
   */
  health(options?: { signal?: AbortSignal }): Promise<ModelHealth & { mode: 'mock' | 'openai' }>;
  /** Rejects further calls with MODEL_CLOSED, and resolves when those in progress have ended. */
  close(): Promise<void>;
};

const HEALTH_TIMEOUT_MS = 5_000;

/**
 * Creates a model client (Contract 4, Model): validation, repair, retries, breaker and metrics are the same for both
 * modes.
 * @throws ModelError MODEL_MISCONFIGURED, naming the variable and never its value.
 */
export function createModelClient(options: ModelClientOptions): ModelClient {
  checkNumbers(options);
  const { mode, timeoutMs } = options;
  const backend =
    mode === 'mock' ? createMockBackend(options) : createOpenAIBackend(serverSettings(options));
  const retry = createRetry({
    timeoutMs,
    attempts: options.retry?.attempts ?? 3,
    initialDelayMs: options.retry?.initialDelayMs ?? 500,
    maxDelayMs: options.retry?.maxDelayMs ?? 10_000,
  });
  // A server that embeds no more, or sees no more, still chats: one breaker would forget its failures.
  const breaker = () =>
    createBreaker({
      failures: options.breaker?.failures ?? 5,
      halfOpenAfterMs: options.breaker?.halfOpenAfterMs ?? 30_000,
      maxWaitMs: timeoutMs,
    });
  const breakers = { chat: breaker(), vision: breaker(), embedding: breaker() };
  // A server's context is one, whatever it is asked for.
  const gates = new Map(Object.values(backend.addresses).map((address) => [address, createGate()]));
  const lastFailures = createLastFailures();
  const lane = <M>(kind: CallKind, model: M) => {
    const address = backend.addresses[kind];
    const gate = gates.get(address) ?? createGate();
    const observe: Observer = (event) => {
      lastFailures.record(kind, event);
      options.observe?.(event);
    };
    return { model, address, retry, gate, breaker: breakers[kind], observe };
  };
  const chat = lane('chat', backend.chat);
  const vision = backend.vision && lane('vision', backend.vision);
  const embedding = {
    ...lane('embedding', backend.embedding),
    dimensions: options.embeddingDimensions,
    textLimit: createTextLimit(),
  };
  const conversation = {
    ...chat,
    timeoutMs,
    chatModel: (name: string | undefined) =>
      name === undefined ? backend.chat : backend.chatModel(name),
  };

  const inProgress = new Set<Promise<unknown>>();
  let closing: Promise<void> | undefined;

  function begin(): () => void {
    if (closing) throw new ModelError('MODEL_CLOSED', 'The model client has been closed.');
    const ended = Promise.withResolvers<void>();
    inProgress.add(ended.promise);
    return () => {
      inProgress.delete(ended.promise);
      ended.resolve();
    };
  }

  return {
    async generateObject(request) {
      const end = begin();
      try {
        const used = request.image ? vision : chat;
        if (used !== undefined) return await generateObject(used, request);
        throw new ModelError('MODEL_UNSUPPORTED', 'MODEL_VISION is off: no image is described.');
      } finally {
        end();
      }
    },
    async *streamChat(request) {
      const end = begin();
      try {
        yield* streamChat(conversation, request);
      } finally {
        end();
      }
    },
    async embed(texts, request = {}) {
      const end = begin();
      try {
        return await embed(embedding, texts, request);
      } finally {
        end();
      }
    },
    chatModel: backend.chat.modelId,
    visionModel: backend.vision?.modelId,
    embeddingModel: backend.embedding.modelId,
    breaker: joinBreakers(Object.values(breakers)),
    async health({ signal } = {}) {
      if (closing) return { status: 'down', detail: 'The model client has been closed.', mode };
      const limit = AbortSignal.timeout(Math.min(HEALTH_TIMEOUT_MS, timeoutMs));
      const health = await backend.health(signal ? AbortSignal.any([signal, limit]) : limit);
      const failures = lastFailures.describe();
      if (health.status === 'down' || failures.length === 0) return { ...health, mode };
      return { status: 'failing', detail: failures.join(' '), mode };
    },
    close: () => (closing ??= Promise.allSettled(inProgress).then(() => backend.close())),
  };
}

/** Failures of the caller say nothing about the server. */
const OF_THE_CALLER: ReadonlySet<string> = new Set<ModelErrorCode>([
  'MODEL_ABORTED',
  'MODEL_CLOSED',
]);

/** Failures of one input; MAX_INPUT_FAILURES in a row mean that the server's context is too small. */
const OF_AN_INPUT: ReadonlySet<string> = new Set<ModelErrorCode>([
  'MODEL_INPUT_TOO_LARGE',
  'MODEL_REFUSED',
  'MODEL_TRUNCATED',
]);
const MAX_INPUT_FAILURES = 5;

/** Keeps the last failure of each kind: a server that lists its models may still fail every request. */
function createLastFailures() {
  const reasons = new Map<CallKind, string>();
  const inputFailures = new Map<CallKind, number>();
  return {
    record(kind: CallKind, { outcome, reason = '' }: Parameters<Observer>[0]): void {
      if (outcome === 'ok') {
        reasons.delete(kind);
        inputFailures.delete(kind);
      } else if (OF_AN_INPUT.has(outcome)) {
        const inARow = (inputFailures.get(kind) ?? 0) + 1;
        inputFailures.set(kind, inARow);
        if (inARow >= MAX_INPUT_FAILURES) reasons.set(kind, reason);
      } else if (!OF_THE_CALLER.has(outcome)) {
        reasons.set(kind, reason);
      }
    },
    describe: () =>
      [...reasons].map(([kind, reason]) => `The last ${kind} request failed: ${reason}`),
  };
}
