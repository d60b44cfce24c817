import type { Static, TSchema } from 'typebox';
import type { ChatPart } from './chat/answer-parts.ts';
import type { ChatRequest } from './chat/open-answer.ts';
import { streamChat } from './chat/stream-chat.ts';
import { embed, type EmbedOptions, type EmbedResult } from './embed.ts';
import { type CallKind, createCallHealth } from './call-health.ts';
import { ModelError } from './errors.ts';
import { type Addressee, createExchanger } from './exchange.ts';
import { createInProgress } from './in-progress.ts';
import { checkNumbers, serverSettings, type ModelClientOptions } from './options.ts';
import type { ModelBackend, ModelHealth } from './providers/backend.ts';
import { createTextLimit } from './text-limit.ts';
import { createMockBackend } from './providers/mock.ts';
import { createOpenAIBackend } from './providers/openai.ts';
import { createBreaker, type BreakerView } from './resilience/breaker.ts';
import { createGate, type Gate } from './resilience/gate.ts';
import { joinBreakers } from './resilience/join-breakers.ts';
import { createCallPolicy } from './resilience/call-policy.ts';
import {
  generateObject,
  type ObjectRequest,
  type ObjectResult,
} from './structured/generate-object.ts';

/** The language model, as the apps use it. Every failure is a `ModelError`. */
export type ModelClient = {
  /** Asks for an answer that follows a schema; the answer has been validated here. */
  generateObject<S extends TSchema>(request: ObjectRequest<S>): Promise<ObjectResult<Static<S>>>;
  /** Has the model go on with a conversation, and gives its answer as it comes. */
  streamChat(request: ChatRequest): AsyncGenerator<ChatPart, void, undefined>;
  /** Embeds texts; the vectors have been validated and are in the order of the texts. */
  embed(texts: readonly string[], options?: EmbedOptions): Promise<EmbedResult>;
  /** The configured name of the model that answers without pictures; servers may answer by another. */
  readonly chatModel: string;
  /** The configured name of the model that is shown images; nothing where none is (`MODEL_VISION=off`). */
  readonly visionModel: string | undefined;
  /** The configured name of the model that embeds: vectors of different models cannot be compared. */
  readonly embeddingModel: string;
  /**
   * Whether a server is being left alone. Chat, pictures and embeddings have a breaker each, whether or not
   * one server does all: this is open while any is, and half-open while one call may try.
   */
  readonly breaker: BreakerView;
  /**
   * Asks each server for its list of models, with a short timeout and beside the breaker, and looks at how the last
   * request of each kind has ended.
   */
  health(options?: { signal?: AbortSignal }): Promise<ModelHealth & { mode: 'mock' | 'openai' }>;
  /** Refuses further calls with MODEL_CLOSED, and resolves when those in progress have ended. */
  close(): Promise<void>;
};

const HEALTH_TIMEOUT_MS = 5_000;

/**
 * Makes a model client (Contract 4, Model): validation, repair, retries, breaker and metrics are one
 * path for both modes.
 *
 * @throws ModelError MODEL_MISCONFIGURED, naming the variable and never its value.
 */
export function createModelClient(options: ModelClientOptions): ModelClient {
  checkNumbers(options);
  const backend = createBackend(options);
  const { timeoutMs, observe } = options;
  const breakers = {
    failures: options.breaker?.failures ?? 5,
    halfOpenAfterMs: options.breaker?.halfOpenAfterMs ?? 30_000,
    patienceMs: timeoutMs,
  };
  // One server that embeds no more, or sees no more, still chats, and each answer would make the breaker forget
  // the failures.
  const chatting = createBreaker(breakers);
  const seeing = createBreaker(breakers);
  const embedding = createBreaker(breakers);
  const policy = createCallPolicy({
    timeoutMs,
    attempts: options.retry?.attempts ?? 3,
    initialDelayMs: options.retry?.initialDelayMs ?? 500,
    maxDelayMs: options.retry?.maxDelayMs ?? 10_000,
  });
  const callHealth = createCallHealth();
  // What one server has to bear at once is one number, whatever it is asked for.
  const gates = new Map<Addressee, Gate>(
    Object.values(backend.addresses).map((address) => [address, createGate()]),
  );
  const wayTo = (kind: CallKind) => {
    const address = backend.addresses[kind];
    const gate = gates.get(address) ?? createGate();
    return { address, gate, observe: callHealth.watch(kind, observe) };
  };
  const generating = {
    model: backend.chat,
    call: policy,
    exchange: createExchanger({ breaker: chatting, ...wayTo('chat') }),
  };
  const describing = backend.vision && {
    model: backend.vision,
    call: policy,
    exchange: createExchanger({ breaker: seeing, ...wayTo('vision') }),
  };
  const vectorising = {
    ...backend,
    call: policy,
    dimensions: options.embeddingDimensions,
    textLimit: createTextLimit(),
    exchange: createExchanger({ breaker: embedding, ...wayTo('embedding') }),
  };
  const conversing = {
    chatModel: (name: string | undefined) =>
      name === undefined ? backend.chat : backend.chatModel(name),
    call: policy,
    breaker: chatting,
    timeoutMs,
    ...wayTo('chat'),
  };
  const inProgress = createInProgress();

  return {
    generateObject: (request) =>
      inProgress.call(async () => {
        const deps = request.image ? describing : generating;
        if (deps !== undefined) return generateObject(deps, request);
        throw new ModelError('MODEL_UNSUPPORTED', 'MODEL_VISION is off: no image is described.');
      }),
    streamChat: (request) => inProgress.stream(() => streamChat(conversing, request)),
    embed: (texts, request = {}) => inProgress.call(() => embed(vectorising, texts, request)),
    chatModel: backend.chat.modelId,
    visionModel: backend.vision?.modelId,
    embeddingModel: backend.embedding.modelId,
    breaker: joinBreakers([chatting, seeing, embedding]),
    async health({ signal } = {}) {
      const { mode } = options;
      if (inProgress.isClosed) {
        return { status: 'down', detail: 'The model client has been closed.', mode };
      }
      const limit = AbortSignal.timeout(Math.min(HEALTH_TIMEOUT_MS, options.timeoutMs));
      const health = await backend.health(signal ? AbortSignal.any([signal, limit]) : limit);
      const failures = callHealth.failures();
      if (health.status === 'down' || failures.length === 0) return { ...health, mode };
      return { status: 'failing', detail: failures.join(' '), mode };
    },
    close: () => inProgress.close(() => backend.close()),
  };
}

function createBackend(options: ModelClientOptions): ModelBackend {
  return options.mode === 'mock'
    ? createMockBackend({
        dimensions: options.embeddingDimensions,
        agent: options.mockAgent,
        sees: options.vision !== false,
      })
    : createOpenAIBackend(serverSettings(options));
}
