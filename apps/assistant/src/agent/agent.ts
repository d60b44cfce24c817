import type { ChatMessage, ChatPart, ChatRequest, ModelClient, ToolCall } from '@oselya/model';
import { problem } from '../errors.ts';
import { refused, type ToolResult } from '../tools/run-tool.ts';
import { estimateTokens } from './context.ts';
import type { UsedTool } from './used-tools.ts';

/** What one answer may use. */
export type AgentLimits = {
  /** Calls of the model; the last of them is made without tools, so that it answers. */
  rounds: number;
  /** Tools that are run, over all rounds. Of one round so many calls are kept at most, whether they are run or refused. */
  toolCalls: number;
  /** Tokens that the model writes, over all rounds: ANSWER_MAX_TOKENS. */
  outputTokens: number;
  /** Of the whole answer: ANSWER_MAX_SECONDS. */
  ms: number;
};

/** What of {@link AgentLimits} no setting changes. */
export const fixedLimits = { rounds: 8, toolCalls: 16 };

/** What of the model's window tools leave to the answer, where that may be so long. */
const ANSWER_SHARE = 1 / 4;

/** What happens while an agent answers, in its order. */
export type AgentEvent =
  | { type: 'text'; text: string }
  | { type: 'tool.started'; call: ToolCall }
  | { type: 'tool.finished'; call: ToolCall; result: ToolResult; used: UsedTool };

/** What an agent needs in order to answer. */
export type AgentOptions = {
  model: Pick<ModelClient, 'streamChat'>;
  /** What is sent first. */
  request: Omit<ChatRequest, 'operation' | 'signal' | 'maxOutputTokens'>;
  /**
   * Runs a tool. It never throws but for the signal.
   * @param context.hasReadData Whether the model had read what strangers wrote when it asked for it.
   */
  runTool: (call: ToolCall, context: { hasReadData: boolean }) => Promise<ToolResult>;
  limits: Omit<AgentLimits, 'ms'>;
  /** How much the model takes at once. */
  contextTokens: number;
  signal: AbortSignal;
};

/**
 * Answers the last message of a conversation: asks the model, runs the tools that it asks for, and asks again
 * with what they gave, until it has answered or its rounds are spent. Texts of several rounds follow one another.
 * @throws ProblemError `answer_too_long` where it has written as much as it may, or `model_failed` where it says
 *   nothing; ModelError as the model client does; the signal's reason.
 */
export async function* runAgent({
  model,
  request,
  runTool,
  limits,
  contextTokens,
  signal,
}: AgentOptions): AsyncGenerator<AgentEvent, void, undefined> {
  const messages: ChatMessage[] = [...request.messages];
  // What strangers wrote and the model has read by the call of this moment.
  let hasReadData = false;
  let hasText = false;
  let toolsRun = 0;
  let tokensLeft = limits.outputTokens;

  for (let round = 1; ; round += 1) {
    const isLast = round === limits.rounds || toolsRun >= limits.toolCalls;
    const stream = model.streamChat({
      ...request,
      operation: 'chat',
      messages,
      tools: isLast ? [] : request.tools,
      maxOutputTokens: tokensLeft,
      signal,
    });
    const { text, calls, leftOut, tokens, isCut }: Round = yield* readRound(stream, {
      follows: hasText,
      mostTokens: tokensLeft,
      mostCalls: limits.toolCalls,
    });
    hasText ||= text !== '';
    tokensLeft -= tokens;
    if (isCut) throw problem('answer_too_long');
    // A model that asks for tools which it was not given has nothing more to say.
    if (calls.length === 0 || isLast) {
      if (!hasText) throw problem('model_failed', { detail: 'It answered nothing. Try again.' });
      return;
    }
    if (tokensLeft <= 0) throw problem('answer_too_long');

    messages.push({ role: 'assistant', content: text, toolCalls: calls });
    let readsData = false;
    for (const [index, call] of calls.entries()) {
      signal.throwIfAborted();
      yield { type: 'tool.started', call };
      const refusal = noMoreTools();
      const result: ToolResult =
        refusal === undefined ? await runTool(call, { hasReadData }) : refused(refusal);
      toolsRun += 1;
      readsData ||= result.isData;
      const { status, output, kept } = result;
      const used = { ...call, status, output: kept, round };
      yield { type: 'tool.finished', call, result, used };
      // What is told of the calls that were left out goes with the last result: no other message may stand here.
      const content = index === calls.length - 1 ? output + tellLeftOut(leftOut) : output;
      messages.push({ role: 'tool', toolCallId: call.id, toolName: call.name, content });
    }
    hasReadData ||= readsData;
  }

  /** What the model is told once of the calls of a round that were not kept; nothing where all were. */
  function tellLeftOut(count: number): string {
    if (count === 0) return '';
    return `\n(${count} more calls were left out: at most ${limits.toolCalls} tools are run for one answer.)`;
  }

  /** Why another tool cannot be run; nothing where it can. */
  function noMoreTools(): string | undefined {
    if (toolsRun >= limits.toolCalls) {
      return `at most ${limits.toolCalls} tools are run for one answer`;
    }
    const said = estimateTokens(JSON.stringify([request.system, request.tools, messages]));
    const reserve = Math.min(tokensLeft, contextTokens * ANSWER_SHARE);
    if (said + reserve <= contextTokens) return undefined;
    return 'there is no room for more in this answer; answer with what is known';
  }
}

/** What a model said in one round. */
type Round = {
  text: string;
  calls: ToolCall[];
  /** How many calls were not kept. */
  leftOut: number;
  /** At least how many tokens it was. */
  tokens: number;
  /** Whether the model was stopped by its limit. */
  isCut: boolean;
};

/**
 * Reads what the model says, and passes its text on.
 * @param bounds.follows Whether there is text of earlier rounds.
 * @param bounds.mostTokens The model was told of it; a server that heeds no limit is held to it here.
 * @throws ProblemError `answer_too_long`; what the stream throws.
 */
async function* readRound(
  stream: AsyncIterable<ChatPart>,
  { follows, mostTokens, mostCalls }: { follows: boolean; mostTokens: number; mostCalls: number },
): AsyncGenerator<AgentEvent, Round, undefined> {
  const calls: ToolCall[] = [];
  let leftOut = 0;
  let text = '';
  let textParts = 0;
  let callTokens = 0;
  let end: Extract<ChatPart, { type: 'end' }> | undefined;
  for await (const part of stream) {
    if (part.type === 'end') {
      end = part;
      continue;
    }
    // A part of text is a token at least.
    if (textParts + callTokens >= mostTokens) throw problem('answer_too_long');
    if (part.type === 'text') {
      textParts += 1;
      // What was said before the tools is a paragraph of its own.
      if (text === '' && follows) yield { type: 'text', text: '\n\n' };
      text += part.text;
      yield { type: 'text', text: part.text };
    } else {
      callTokens += tokensOfCall(part.call);
      if (calls.length < mostCalls) calls.push(part.call);
      else leftOut += 1;
    }
  }
  const counted = end?.usage.outputTokens ?? estimateTokens(text) + callTokens;
  const tokens = Math.max(textParts + callTokens, counted);
  return { text, calls, leftOut, tokens, isCut: end?.reason === 'length' };
}

/** About how many tokens the input of a call is, at least one, whatever is done about it. */
const tokensOfCall = ({ input }: ToolCall) => estimateTokens(JSON.stringify(input) ?? '-');
