import type { LanguageModelV4 } from '@ai-sdk/provider';
import { ModelError } from '../errors.ts';
import { type Addressee, modelError } from '../exchange.ts';
import { type ModelCallEvent, openReport } from '../call-event.ts';
import { type CallContext, givenUp } from '../resilience/call-policy.ts';
import { answerParts, type ChatPart, EXPECTED } from './answer-parts.ts';
import type { ChatMessage, ToolDefinition } from '../conversation.ts';
import { textsIn } from '../transport/quote.ts';
import { toPrompt, toTools } from './messages.ts';

/** What a conversation is to be continued from. */
export type ChatRequest = {
  /** What the call is for, as metrics name it. */
  operation: string;
  /** The name of a model in place of the configured one. */
  model?: string | undefined;
  system: string;
  messages: readonly ChatMessage[];
  tools?: readonly ToolDefinition[] | undefined;
  /** `none`: the tools are sent, as in the requests before, and none may be called. */
  toolChoice?: 'auto' | 'none' | undefined;
  /** The longest answer. */
  maxOutputTokens?: number | undefined;
  signal?: AbortSignal | undefined;
};

/** What asking for an answer needs. */
export type OpenAnswerDeps = {
  /** @param name In place of the configured one. */
  chatModel: (name: string | undefined) => LanguageModelV4;
  address: Addressee;
  /** How long the server may take for the next part. */
  timeoutMs: number;
  observe?: ((event: ModelCallEvent) => void) | undefined;
};

/** An answer of which something has come. */
export type OpenAnswer = {
  /**
   * What has come of it, and what comes; to be asked for once.
   * @throws ModelError MODEL_TIMEOUT where the next part does not come in time; every code of a request.
   */
  parts(): AsyncGenerator<ChatPart, void, undefined>;
  /** Has the server stop to write, unless it has ended. */
  close(): void;
};

/**
 * Asks for an answer, and waits until something of it has come.
 * @throws ModelError every code of a request.
 */
export async function openAnswer(
  { chatModel, address, timeoutMs, observe }: OpenAnswerDeps,
  { operation, model, system, messages, tools = [], ...request }: ChatRequest,
  context: CallContext,
): Promise<OpenAnswer> {
  const { toolChoice = 'auto', maxOutputTokens, signal } = request;
  const report = openReport(operation, observe);
  const ending = new AbortController();

  function fail(error: unknown, interruption: CallContext['interruption']): ModelError {
    const failure = modelError(error, { expected: EXPECTED, context: { interruption }, address });
    report.end(failure);
    return failure;
  }

  const giveUp = () => ending.abort();
  context.signal.addEventListener('abort', giveUp);
  let source: AsyncGenerator<ChatPart | undefined, void, undefined>;
  let next: IteratorResult<ChatPart | undefined, void>;
  try {
    const chat = chatModel(model);
    // Without the SDK's `streamText`: ADR 0004.
    const { stream } = await chat.doStream({
      prompt: toPrompt(system, messages),
      ...(tools.length > 0 && { tools: toTools(tools), toolChoice: { type: toolChoice } }),
      ...(maxOutputTokens !== undefined && { maxOutputTokens }),
      abortSignal: AbortSignal.any([ending.signal, ...(signal ? [signal] : [])]),
    });
    const texts = textsIn({ messages });
    source = answerParts(stream, { configured: chat.modelId, apiKey: address.apiKey, texts });
    next = await source.next();
  } catch (error) {
    throw fail(error, () => context.interruption());
  } finally {
    context.signal.removeEventListener('abort', giveUp);
  }

  async function* parts(): AsyncGenerator<ChatPart, void, undefined> {
    let isLate = false;
    const interruption = () => interruptionOf({ isLate, signal, timeoutMs });
    try {
      while (!next.done) {
        if (next.value?.type === 'end') report.tokens = next.value.usage;
        if (next.value !== undefined) yield next.value;
        const timer = setTimeout(() => {
          isLate = true;
          giveUp();
        }, timeoutMs);
        next = await source.next().finally(() => clearTimeout(timer));
      }
    } catch (error) {
      throw fail(error, interruption);
    }
    report.end('ok');
  }

  return {
    parts,
    close() {
      // Whoever stops to listen has the server stop to write.
      giveUp();
      report.end('MODEL_ABORTED');
    },
  };
}

function interruptionOf(stream: {
  isLate: boolean;
  signal: AbortSignal | undefined;
  timeoutMs: number;
}): ModelError | undefined {
  if (stream.signal?.aborted) return givenUp(stream.signal);
  if (!stream.isLate) return undefined;
  return new ModelError(
    'MODEL_TIMEOUT',
    `The model server fell silent for ${stream.timeoutMs} ms in the middle of its answer. Raise MODEL_TIMEOUT_MS if it needs longer.`,
  );
}
