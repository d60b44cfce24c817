import type { ChatMessage, ChatPart, ChatRequest, ModelClient, ToolCall } from '@oselya/model';
import { cutText } from '../text.ts';
import { problem } from '../errors.ts';
import { refused, type ToolResult } from '../tools/run-tool.ts';
import { bytesOf, estimateTokens } from './estimate.ts';
import { TOKEN_LENGTH } from './read-text.ts';
import type { UsedTool } from './used-tools.ts';
import { openWindow } from './window.ts';

/** What one answer may use. */
export type AgentLimits = {
  /** Calls of the model; in the last of them it may call no tool, so that it answers. */
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

/** The least that a tool is run for: what changes the memory tells of it in some more. */
const LEAST_OUTPUT_TOKENS = 64;

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
   * @param context.outputBytes How long its output may be.
   */
  runTool: (
    call: ToolCall,
    context: { hasReadData: boolean; outputBytes: number },
  ) => Promise<ToolResult>;
  limits: Omit<AgentLimits, 'ms'>;
  /** How much the model takes at once: what is sent and what it may write are never more together. */
  contextTokens: number;
  signal: AbortSignal;
};

/**
 * Answers the last message of a conversation: asks the model, runs the tools that it asks for, and asks again
 * with what they gave, until it has answered or its rounds are spent. Texts of several rounds follow one another.
 * @throws ProblemError `message_too_long` where the question leaves no room for an answer, `answer_too_long` where it
 *   has written as much as it may, or `model_failed` where it says nothing or nests the input of a tool too deep;
 *   ModelError as the model client does; the
 *   signal's reason.
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
  let ignoresChoice = false;
  let tokensLeft = limits.outputTokens;
  const window = openWindow({ request, contextTokens, outputTokens: tokensLeft });

  for (let round = 1; ; round += 1) {
    const isLast = round >= limits.rounds || toolsRun >= limits.toolCalls;
    // The tools stay in the last request, so that it begins like those in the server's prompt cache.
    const next: typeof request = { ...request, messages };
    if (ignoresChoice) next.tools = [];
    else if (isLast) next.toolChoice = 'none';
    const mostTokens = Math.min(tokensLeft, window.roomBeside(next));
    if (mostTokens < 1) throw problem('answer_too_long');
    const stream = model.streamChat({
      ...next,
      operation: 'chat',
      maxOutputTokens: mostTokens,
      signal,
    });
    const { text, calls, leftOut, tokens, isCut }: Round = yield* readRound(stream, {
      follows: hasText,
      mostTokens,
      mostCalls: limits.toolCalls,
    });
    hasText ||= text !== '';
    tokensLeft -= tokens;
    if (isCut) throw problem('answer_too_long');
    // Ollama reads no `tool_choice`: a model that calls a tool all the same is asked once more without any.
    if (isLast && calls.length > 0 && !hasText && !ignoresChoice && tokensLeft > 0) {
      ignoresChoice = true;
      continue;
    }
    // A model that asks for tools which it was not given has nothing more to say.
    if (calls.length === 0 || isLast) {
      if (!hasText) throw problem('model_failed', { detail: 'It answered nothing. Try again.' });
      return;
    }
    if (tokensLeft <= 0) throw problem('answer_too_long');

    messages.push({ role: 'assistant', content: text, toolCalls: calls });
    const readsData: boolean = yield* runTools(calls, { leftOut, round });
    hasReadData ||= readsData;
  }

  /** Runs the tools of a round, and gives whether the model has read by them what strangers wrote. */
  async function* runTools(
    calls: readonly ToolCall[],
    { leftOut, round }: { leftOut: number; round: number },
  ): AsyncGenerator<AgentEvent, boolean, undefined> {
    let readsData = false;
    for (const [index, call] of calls.entries()) {
      signal.throwIfAborted();
      yield { type: 'tool.started', call };
      // What is told of the calls that were left out goes with the last result: no other message may stand here.
      const isLastCall = index === calls.length - 1;
      const more = isLastCall ? tellLeftOut(leftOut) : '';
      const results = [toldOf(call, more), ...calls.slice(index + 1).map(refusalOf)];
      const room = window.roomForTool([...messages, ...results], tokensLeft);
      const refusal = noMoreTools(room);
      const result: ToolResult =
        refusal === undefined
          ? await runTool(call, { hasReadData, outputBytes: bytesOf(room) })
          : refused(refusal);
      toolsRun += 1;
      readsData ||= result.isData;
      const { status, output, kept } = result;
      const used = { ...call, status, output: kept, round };
      yield { type: 'tool.finished', call, result, used };
      messages.push(toldOf(call, output + more));
    }
    return readsData;
  }

  /** What the model is told once of the calls of a round that were not kept; nothing where all were. */
  function tellLeftOut(count: number): string {
    if (count === 0) return '';
    return `\n(${count} more calls were left out: at most ${limits.toolCalls} tools are run for one answer.)`;
  }

  /** Why another tool cannot be run; nothing where it can. */
  function noMoreTools(room: number): string | undefined {
    if (toolsRun >= limits.toolCalls) {
      return `at most ${limits.toolCalls} tools are run for one answer`;
    }
    return room < LEAST_OUTPUT_TOKENS ? NO_ROOM : undefined;
  }
}

/** What the model is told where its window is full. */
const NO_ROOM = 'there is no room for more in this answer; answer with what is known';

const toldOf = ({ id, name }: ToolCall, content: string): ChatMessage => ({
  role: 'tool',
  toolCallId: id,
  toolName: name,
  content,
});

/** What the model is told at least of a call. */
const refusalOf = (call: ToolCall) => toldOf(call, refused(NO_ROOM).output);

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
 * @throws ProblemError `answer_too_long`, `model_failed` where the input of a call is nested too deep; what the stream
 *   throws.
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
    // A part of text is a token at least, and a long one is several.
    const mostParts = mostTokens - callTokens;
    if (textParts >= mostParts) throw problem('answer_too_long');
    if (part.type === 'text') {
      textParts += 1;
      const length = Math.max(0, mostParts * TOKEN_LENGTH - text.length);
      const more = cutText(part.text, length);
      // What was said before the tools is a paragraph of its own.
      if (text === '' && follows) yield { type: 'text', text: '\n\n' };
      text += more;
      yield { type: 'text', text: more };
      if (more !== part.text) throw problem('answer_too_long');
    } else {
      if (!isWithinLevels(part.call.input, MAX_INPUT_LEVELS)) {
        throw problem('model_failed', {
          detail: `It asked for a tool with an input nested more than ${MAX_INPUT_LEVELS} levels deep. Try again.`,
        });
      }
      callTokens += tokensOfCall(part.call);
      if (calls.length < mostCalls) calls.push(part.call);
      else leftOut += 1;
    }
  }
  const textTokens = Math.max(textParts, Math.ceil(text.length / TOKEN_LENGTH));
  const counted = end?.usage.outputTokens ?? estimateTokens(text) + callTokens;
  const tokens = Math.max(textTokens + callTokens, counted);
  return { text, calls, leftOut, tokens, isCut: end?.reason === 'length' };
}

/** How deep the input of a call may be nested; no tool takes more than a few levels, and all that reads it recurses. */
const MAX_INPUT_LEVELS = 32;

/** Whether a value has at most so many objects and arrays within one another. */
function isWithinLevels(value: unknown, levels: number): boolean {
  if (typeof value !== 'object' || value === null) return true;
  return levels > 0 && Object.values(value).every((member) => isWithinLevels(member, levels - 1));
}

/** About how many tokens the input of a call is, at least one, whatever is done about it. */
const tokensOfCall = ({ input }: ToolCall) => estimateTokens(JSON.stringify(input) ?? '-');
