import {
  type JSONSchema7,
  type LanguageModelV4,
  type LanguageModelV4FinishReason,
  type LanguageModelV4Prompt,
  type LanguageModelV4StreamPart,
  TypeValidationError,
} from '@ai-sdk/provider';
import type { ChatMessage, ToolCall, ToolDefinition } from './conversation.ts';
import { ModelError } from './errors.ts';
import { type Lane, openRequest } from './request.ts';
import { createAbortedError, type CallContext } from './retry.ts';
import { type ConfidentialParts, extractTexts } from './quote.ts';
import { readServerError, createStreamError } from './server-error.ts';
import { readTokens, type Tokens } from './usage.ts';

export type ChatRequest = {
  operation: string;
  /** Name of the model. Defaults to the configured model. */
  model?: string | undefined;
  system: string;
  messages: readonly ChatMessage[];
  tools?: readonly ToolDefinition[] | undefined;
  /** With `none`, the request contains the tools, but the model must not call them. */
  toolChoice?: 'auto' | 'none' | undefined;
  maxOutputTokens?: number | undefined;
  signal?: AbortSignal | undefined;
};

export type ChatPart =
  | { type: 'text'; text: string }
  | { type: 'tool_call'; call: ToolCall }
  // `length` means that the completion reached its length limit. `model` is the name in the response, or else the
  // configured one.
  | { type: 'end'; reason: 'stop' | 'length' | 'tool_calls'; model: string; usage: Tokens };

/** Lane for conversations. The model is chosen for each request. `timeoutMs` is the longest wait for the next part. */
type ChatLane = Omit<Lane<unknown>, 'model'> & {
  chatModel: (name: string | undefined) => LanguageModelV4;
  timeoutMs: number;
};

/** Stream of the parts of a completion. A part is undefined if it only shows that the server is working. */
type ChatPartStream = AsyncGenerator<ChatPart | undefined, void, undefined>;

const EXPECTED_RESPONSE = 'a streamed chat completion. Check that MODEL_CHAT names a chat model.';

/**
 * Continues a conversation, and yields the parts of the completion. Failures before the first part are retried
 * (Contract 4, Model). Later failures end the stream, because yielded parts cannot be taken back. The breaker records
 * failures at any time, and a success at the end, or at the first part of a probe.
 * @throws ModelError MODEL_TIMEOUT if the next part does not arrive in time, MODEL_REFUSED, and all other codes of a
 *   request.
 */
export async function* streamChat(
  lane: ChatLane,
  chat: ChatRequest,
): AsyncGenerator<ChatPart, void, undefined> {
  const { timeoutMs } = lane;
  const { signal } = chat;
  const { request, parts, firstPart, abort } = await lane.retry(signal, (context) =>
    openCompletion(lane, chat, context),
  );
  let hasTimedOut = false;
  let isReading = false;
  // Only the wait for the server counts. `refresh` restarts the timer even if it expired while the consumer was
  // reading.
  const timer = setTimeout(() => {
    if (!isReading) return;
    hasTimedOut = true;
    abort();
  }, timeoutMs);
  const getInterruption = () => {
    if (signal?.aborted) return createAbortedError(signal);
    if (!hasTimedOut) return undefined;
    const message = `The model server sent nothing for ${timeoutMs} ms in the middle of its answer. Raise MODEL_TIMEOUT_MS if the server needs more time.`;
    return new ModelError('MODEL_TIMEOUT', message);
  };
  try {
    for (let nextPart = firstPart; !nextPart.done; nextPart = await parts.next()) {
      isReading = false;
      if (nextPart.value?.type === 'end') request.tokens = nextPart.value.usage;
      if (nextPart.value !== undefined) yield nextPart.value;
      isReading = true;
      timer.refresh();
    }
    request.end('ok');
  } catch (error) {
    throw request.fail(error, getInterruption);
  } finally {
    clearTimeout(timer);
    // Also runs if the consumer stops reading, so that the server stops generating.
    abort();
    request.end('MODEL_ABORTED');
  }
}

/** Sends a request, and waits for the first part of its completion. */
async function openCompletion(lane: ChatLane, chat: ChatRequest, context: CallContext) {
  const { operation, tools = [], toolChoice = 'auto', maxOutputTokens, signal } = chat;
  const request = await openRequest(lane, context, {
    operation,
    expectedResponse: EXPECTED_RESPONSE,
  });
  const abortController = new AbortController();
  const abort = () => abortController.abort();
  context.signal.addEventListener('abort', abort);
  try {
    const model = lane.chatModel(chat.model);
    // Does not use the SDK's `streamText`. See ADR 0004.
    const { stream } = await model.doStream({
      prompt: toPrompt(chat),
      ...(tools.length > 0 && {
        tools: tools.map(({ name, description, input }) => ({
          type: 'function' as const,
          name,
          description,
          // The SDK's type is not read-only.
          inputSchema: input as JSONSchema7,
        })),
        toolChoice: { type: toolChoice },
      }),
      ...(maxOutputTokens !== undefined && { maxOutputTokens }),
      abortSignal: AbortSignal.any([abortController.signal, ...(signal ? [signal] : [])]),
    });
    const texts = extractTexts({ messages: chat.messages });
    const parts = readParts(stream, model.modelId, { apiKey: lane.address.apiKey, texts });
    const firstPart = await parts.next();
    request.recordProbeSuccess();
    return { request, parts, firstPart, abort };
  } catch (error) {
    throw request.fail(error, () => context.getInterruption());
  } finally {
    // The deadline of the call covers only the first part. Later parts have their own timeout.
    context.signal.removeEventListener('abort', abort);
  }
}

async function* readParts(
  stream: AsyncIterable<LanguageModelV4StreamPart>,
  configuredModel: string,
  confidentialParts: ConfidentialParts,
): ChatPartStream {
  let model = configuredModel;
  for await (const part of stream) {
    switch (part.type) {
      // The provider emits this part before the server has sent anything, so it must not count as the first part.
      case 'stream-start':
        break;
      case 'response-metadata':
        model = part.modelId ?? model;
        break;
      case 'text-delta':
        yield { type: 'text', text: part.delta };
        break;
      case 'tool-call': {
        const { toolCallId: id, toolName: name } = part;
        yield { type: 'tool_call', call: { id, name, input: parseInput(part.input) } };
        break;
      }
      case 'finish': {
        const { inputTokens, outputTokens } = part.usage;
        const usage = readTokens(inputTokens.total, outputTokens.total);
        yield { type: 'end', reason: toEndReason(part.finishReason.unified), model, usage };
        break;
      }
      case 'error':
        throw toStreamError(part.error, confidentialParts);
      default:
        yield undefined;
    }
  }
}

/**
 * Converts an error that the server sent instead of a chunk (`data: {"error": …}`). The provider returns the value of
 * `error`, or a validation error if its format differs from OpenAI's.
 */
function toStreamError(error: unknown, confidentialParts: ConfidentialParts): unknown {
  const isUnknownFormat = TypeValidationError.isInstance(error);
  if (error instanceof Error && !isUnknownFormat) return error;
  const serverError = readServerError(isUnknownFormat ? error.value : { error });
  return serverError === undefined ? error : createStreamError(serverError, confidentialParts);
}

/** Parses the input of a tool call. An empty string means no arguments. Returns invalid JSON as it is. */
function parseInput(inputText: string): unknown {
  if (inputText.trim() === '') return {};
  try {
    return JSON.parse(inputText);
  } catch {
    return inputText;
  }
}

function toEndReason(reason: LanguageModelV4FinishReason['unified']) {
  if (reason === 'stop' || reason === 'length') return reason;
  if (reason === 'tool-calls') return 'tool_calls';
  if (reason === 'content-filter') {
    throw new ModelError('MODEL_REFUSED', 'The model or its content filter refused to answer.');
  }
  throw new ModelError(
    'MODEL_INVALID_OUTPUT',
    `The model server ended its response without marking it as complete. The response is not ${EXPECTED_RESPONSE}`,
  );
}

function toPrompt({ system, messages }: ChatRequest): LanguageModelV4Prompt {
  return [{ role: 'system', content: system }, ...messages.map(toPromptMessage)];
}

function toPromptMessage(message: ChatMessage): LanguageModelV4Prompt[number] {
  const text = { type: 'text', text: message.content } as const;
  if (message.role === 'user') return { role: 'user', content: [text] };
  if (message.role === 'tool') {
    const { toolCallId, toolName, content } = message;
    const output = { type: 'text', value: content } as const;
    return { role: 'tool', content: [{ type: 'tool-result', toolCallId, toolName, output }] };
  }
  const calls = (message.toolCalls ?? []).map(
    ({ id, name, input }) =>
      ({ type: 'tool-call', toolCallId: id, toolName: name, input }) as const,
  );
  return { role: 'assistant', content: [...(message.content === '' ? [] : [text]), ...calls] };
}
