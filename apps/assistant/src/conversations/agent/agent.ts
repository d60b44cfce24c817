import type { ChatMessage, ChatPart, ChatRequest, ModelClient, ToolCall } from '@oselya/model';
import { problem } from '../../errors.ts';
import { cutText } from '../../text.ts';
import { createFailedResult, type ToolResult } from '../tools/tools.ts';
import type { AgentRequest } from './request.ts';
import { MAX_TOKEN_LENGTH } from './title.ts';
import { tokensToBytes, estimateTokens, createContextWindow } from './window.ts';

/** Limits for one answer. */
export type AgentLimits = {
  /** Maximum number of model calls. The last one may not use tools, and is repeated once if the server ignores that. */
  rounds: number;
  /** Maximum number of tool calls over all rounds. Further calls are denied. */
  toolCalls: number;
  /** Maximum number of output tokens over all rounds: ANSWER_MAX_TOKENS. */
  outputTokens: number;
  /** Maximum duration: ANSWER_MAX_SECONDS. */
  ms: number;
};

/** Agent limits that are not configurable. */
export const FIXED_AGENT_LIMITS = { rounds: 8, toolCalls: 16 };

/** Minimum token budget for tool output. A tool call with a smaller budget is denied. */
const MIN_OUTPUT_TOKENS = 64;

/** Maximum nesting depth of a tool input. The limit protects recursive functions from stack overflow. */
const MAX_INPUT_LEVELS = 32;

const NO_ROOM_REASON = 'there is no room for more in this answer; answer with what is known';

type ToolCallContext = {
  round: number;
  hasReadThirdPartyText: boolean;
  outputBytes: number;
  denial: string | undefined;
};

type AgentOptions = {
  model: Pick<ModelClient, 'streamChat'>;
  request: AgentRequest;
  /**
   * Runs a tool, or reports its denial.
   * @param context.hasReadThirdPartyText Whether the model had read third-party text before it made the call.
   * @param context.outputBytes Maximum output length in bytes.
   */
  runTool: (call: ToolCall, context: ToolCallContext) => Promise<ToolResult>;
  onText: (text: string) => void;
  limits: Omit<AgentLimits, 'ms'>;
  /** Maximum number of tokens in a request and its completion: MODEL_CONTEXT_TOKENS. */
  contextTokens: number;
  signal: AbortSignal;
};

/**
 * Answers the last message of a conversation. Calls the model, runs the requested tools and calls it again with their
 * output, until the model answers or reaches the limit on rounds or tool calls.
 * @throws ProblemError `message_too_long` if the question leaves no room for an answer, `answer_too_long`, or
 *   `model_failed` if the completion is empty or a tool input is nested too deeply.
 * @throws ModelError, the signal's reason, or an error of `onText` or `runTool`.
 */
export async function runAgent({
  model,
  request,
  runTool,
  onText,
  limits,
  contextTokens,
  signal,
}: AgentOptions): Promise<void> {
  const messages: ChatMessage[] = [...request.messages];
  let hasReadThirdPartyText = false;
  let hasText = false;
  let toolCallCount = 0;
  let hasIgnoredToolChoice = false;
  let remainingTokens = limits.outputTokens;
  const window = createContextWindow({ request, contextTokens, outputTokens: remainingTokens });

  for (let round = 1; ; round += 1) {
    const isLastRound = round >= limits.rounds || toolCallCount >= limits.toolCalls;
    const nextRequest: AgentRequest & Pick<ChatRequest, 'toolChoice'> = { ...request, messages };
    // The last request keeps the tools, because an unchanged prefix hits the server's prompt cache.
    if (hasIgnoredToolChoice) nextRequest.tools = [];
    else if (isLastRound) nextRequest.toolChoice = 'none';
    const maxOutputTokens = Math.min(remainingTokens, window.getRemainingTokens(nextRequest));
    if (maxOutputTokens < 1) throw problem('answer_too_long');
    const stream = model.streamChat({ ...nextRequest, operation: 'chat', maxOutputTokens, signal });
    const { text, calls, omittedCallCount, tokens, isTruncated } = await readRound(stream, {
      onText,
      isContinued: hasText,
      maxTokens: maxOutputTokens,
      maxCalls: limits.toolCalls,
    });
    hasText ||= text !== '';
    remainingTokens -= tokens;
    if (isTruncated) throw problem('answer_too_long');
    // Ollama ignores `tool_choice`. If the model calls a tool instead of answering, retry the request without tools.
    if (
      isLastRound &&
      calls.length > 0 &&
      !hasText &&
      !hasIgnoredToolChoice &&
      remainingTokens > 0
    ) {
      hasIgnoredToolChoice = true;
      continue;
    }
    if (calls.length === 0 || isLastRound) {
      if (!hasText)
        throw problem('model_failed', { detail: 'The model returned an empty answer. Try again.' });
      return;
    }
    if (remainingTokens <= 0) throw problem('answer_too_long');

    messages.push({ role: 'assistant', content: text, toolCalls: calls });
    // The model makes all calls of a round before it reads any output, so third-party text counts from the next round.
    let hasNewThirdPartyText = false;
    for (const [index, call] of calls.entries()) {
      signal.throwIfAborted();
      const laterCalls = calls.slice(index + 1);
      // Chat protocols allow no extra message after tool results, so the last result contains the note.
      const note =
        laterCalls.length === 0 && omittedCallCount > 0
          ? `\n(${omittedCallCount} more calls were left out: at most ${limits.toolCalls} tools are run for one answer.)`
          : '';
      const reservedMessages = laterCalls.map((laterCall) =>
        toToolMessage(laterCall, createFailedResult(NO_ROOM_REASON).output),
      );
      const plannedMessages = [...messages, toToolMessage(call, note), ...reservedMessages];
      const outputTokens = window.getToolOutputTokens(plannedMessages, remainingTokens);
      let denial: string | undefined;
      if (toolCallCount >= limits.toolCalls) {
        denial = `at most ${limits.toolCalls} tools are run for one answer`;
      } else if (outputTokens < MIN_OUTPUT_TOKENS) denial = NO_ROOM_REASON;
      const outputBytes = tokensToBytes(outputTokens);
      const context = { round, hasReadThirdPartyText, outputBytes, denial };
      const { output, hasThirdPartyText } = await runTool(call, context);
      toolCallCount += 1;
      hasNewThirdPartyText ||= hasThirdPartyText;
      messages.push(toToolMessage(call, output + note));
    }
    hasReadThirdPartyText ||= hasNewThirdPartyText;
  }
}

const toToolMessage = ({ id, name }: ToolCall, content: string): ChatMessage => ({
  role: 'tool',
  toolCallId: id,
  toolName: name,
  content,
});

/**
 * Reads the completion of one round. Enforces the token limit, because not every server does.
 * @param options.isContinued Whether earlier rounds have produced text.
 * @returns The text, the calls, the number of omitted calls, the number of tokens (estimated if the server reports none
 *   or too few), and whether the completion stopped at the token limit.
 * @throws ProblemError `answer_too_long` or `model_failed`; errors of the stream.
 */
async function readRound(
  stream: AsyncIterable<ChatPart>,
  {
    onText,
    isContinued,
    maxTokens,
    maxCalls,
  }: Pick<AgentOptions, 'onText'> & { isContinued: boolean; maxTokens: number; maxCalls: number },
) {
  const calls: ToolCall[] = [];
  let omittedCallCount = 0;
  let text = '';
  let textPartCount = 0;
  let callTokens = 0;
  let endPart: Extract<ChatPart, { type: 'end' }> | undefined;
  for await (const part of stream) {
    if (part.type === 'end') {
      endPart = part;
      continue;
    }
    // The server may merge tokens into one part, so each text part counts as at least one token.
    const maxParts = maxTokens - callTokens;
    if (textPartCount >= maxParts) throw problem('answer_too_long');
    if (part.type === 'text') {
      textPartCount += 1;
      const maxLength = Math.max(0, maxParts * MAX_TOKEN_LENGTH - text.length);
      const allowedText = cutText(part.text, maxLength);
      if (text === '' && isContinued) onText('\n\n');
      text += allowedText;
      onText(allowedText);
      if (allowedText !== part.text) throw problem('answer_too_long');
    } else {
      if (!isWithinLevels(part.call.input, MAX_INPUT_LEVELS)) {
        throw problem('model_failed', {
          detail: `It asked for a tool with an input nested more than ${MAX_INPUT_LEVELS} levels deep. Try again.`,
        });
      }
      callTokens += estimateTokens(JSON.stringify(part.call.input) ?? '-');
      if (calls.length < maxCalls) calls.push(part.call);
      else omittedCallCount += 1;
    }
  }
  const textTokens = Math.max(textPartCount, Math.ceil(text.length / MAX_TOKEN_LENGTH));
  const reportedTokens = endPart?.usage.outputTokens ?? estimateTokens(text) + callTokens;
  const tokens = Math.max(textTokens + callTokens, reportedTokens);
  return { text, calls, omittedCallCount, tokens, isTruncated: endPart?.reason === 'length' };
}

/** Returns whether the objects and arrays in a value are nested at most `levels` deep. */
function isWithinLevels(value: unknown, levels: number): boolean {
  if (typeof value !== 'object' || value === null) return true;
  return levels > 0 && Object.values(value).every((member) => isWithinLevels(member, levels - 1));
}
