import {
  type LanguageModelV4FinishReason,
  type LanguageModelV4StreamPart,
  TypeValidationError,
} from '@ai-sdk/provider';
import { ModelError } from '../errors.ts';
import type { Confidential } from '../transport/quote.ts';
import { readServerError } from '../transport/server-error.ts';
import { streamError } from '../transport/status-error.ts';
import { readTokens, type Tokens } from '../usage.ts';
import type { ToolCall } from '../conversation.ts';

/** What the server's answer must be, and what to check when it is not. */
export const EXPECTED = 'a streamed chat completion. Check that MODEL_CHAT names a chat model.';

/** A part of an answer, as it comes. */
export type ChatPart =
  | { type: 'text'; text: string }
  | { type: 'tool_call'; call: ToolCall }
  | {
      type: 'end';
      /** `length`: the answer was cut off at its length limit. */
      reason: 'stop' | 'length' | 'tool_calls';
      /** The model's name as the server gave it. */
      model: string;
      usage: Tokens;
    };

/**
 * The parts of an answer; nothing for those that only show that the server is at work.
 * @param options.configured The model's name, where the server does not give one.
 * @throws What ended the answer before it was complete, as the provider has it or as a ModelError.
 */
export async function* answerParts(
  stream: AsyncIterable<LanguageModelV4StreamPart>,
  { configured, ...confidential }: { configured: string } & Confidential,
): AsyncGenerator<ChatPart | undefined, void, undefined> {
  let model = configured;
  for await (const part of stream) {
    switch (part.type) {
      // The provider makes this itself, before the server has said anything.
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
        yield { type: 'tool_call', call: { id, name, input: readInput(part.input) } };
        break;
      }
      case 'finish': {
        const { finishReason, usage } = part;
        const cost = readTokens({
          inputTokens: usage.inputTokens.total,
          outputTokens: usage.outputTokens.total,
        });
        yield { type: 'end', reason: reasonOf(finishReason.unified), model, usage: cost };
        break;
      }
      case 'error':
        throw errorOf(part.error, confidential);
      default:
        yield undefined;
    }
  }
}

/**
 * The failure behind an error part: what the server wrote in place of a chunk (`data: {"error": …}`), which the
 * provider gives as the `error` in it, or, where its form is not OpenAI's, within an error of validation.
 */
function errorOf(error: unknown, confidential: Confidential): unknown {
  const isOfForm = TypeValidationError.isInstance(error);
  if (error instanceof Error && !isOfForm) return error;
  const said = readServerError(isOfForm ? error.value : { error });
  return said === undefined ? error : streamError(said, confidential);
}

/** What a model wrote for a tool; nothing at all for one that needs nothing. */
function readInput(written: string): unknown {
  if (written.trim() === '') return {};
  try {
    return JSON.parse(written);
  } catch {
    return written;
  }
}

function reasonOf(
  finishReason: LanguageModelV4FinishReason['unified'],
): 'stop' | 'length' | 'tool_calls' {
  switch (finishReason) {
    case 'stop':
    case 'length':
      return finishReason;
    case 'tool-calls':
      return 'tool_calls';
    case 'content-filter':
      throw new ModelError('MODEL_REFUSED', 'The model or its content filter refused to answer.');
    default:
      throw new ModelError(
        'MODEL_INVALID_OUTPUT',
        `The model server ended its answer without saying that it is complete. It is not ${EXPECTED}`,
      );
  }
}
