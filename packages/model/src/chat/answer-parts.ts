import type { TextStreamPart, ToolSet } from 'ai';
import { ModelError } from '../errors.ts';
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
 * @throws What ended the answer before it was complete, as the SDK has it or as a ModelError.
 */
export async function* answerParts(
  stream: AsyncIterable<TextStreamPart<ToolSet>>,
): AsyncGenerator<ChatPart | undefined, void, undefined> {
  for await (const part of stream) {
    switch (part.type) {
      // The SDK makes these itself, before the server has said anything.
      case 'start':
      case 'start-step':
        break;
      case 'text-delta':
        yield { type: 'text', text: part.text };
        break;
      case 'tool-call':
        yield {
          type: 'tool_call',
          call: { id: part.toolCallId, name: part.toolName, input: part.input },
        };
        break;
      case 'finish-step': {
        const { finishReason, response, usage } = part;
        const end = { model: response.modelId, usage: readTokens(usage) };
        yield { type: 'end', reason: reasonOf(finishReason), ...end };
        break;
      }
      case 'abort':
        throw new DOMException('The answer was given up.', 'AbortError');
      case 'error':
        throw part.error;
      default:
        yield undefined;
    }
  }
}

function reasonOf(finishReason: string): 'stop' | 'length' | 'tool_calls' {
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
