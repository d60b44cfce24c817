import type { ChatMessage, ChatPart, ChatRequest, ModelClient, ToolCall } from '@oselya/model';
import { problem } from '../errors.ts';
import { refused, type ToolResult } from '../tools/run-tool.ts';

/** What one answer may use. */
export const agentLimits = {
  /** Calls of the model; the last of them is made without tools, so that it answers. */
  rounds: 8,
  /** Tools that are run, over all rounds. */
  toolCalls: 16,
  /** Of each call of the model. */
  outputTokens: 4000,
  /** Of the whole answer. */
  ms: 5 * 60_000,
};

/** See {@link agentLimits}. */
export type AgentLimits = typeof agentLimits;

/** What happens while an agent answers, in its order. */
export type AgentEvent =
  | { type: 'text'; text: string }
  | { type: 'tool.started'; call: ToolCall }
  | { type: 'tool.finished'; call: ToolCall; result: ToolResult; used: UsedTool };

/** A tool that was run for an answer, as it is kept with it. */
export type UsedTool = {
  id: string;
  name: string;
  input: unknown;
  status: ToolResult['status'];
  /** What the model is told of it in the answers after this one. */
  output: string;
  /** Which call of the model asked for it, from 1. */
  round: number;
};

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
  limits: AgentLimits;
  signal: AbortSignal;
};

/**
 * Answers the last message of a conversation: asks the model, runs the tools that it asks for, and asks again
 * with what they gave, until it has answered or its rounds are spent. Texts of several rounds follow one another.
 * @throws ModelError as the model client does; the signal's reason.
 */
export async function* runAgent({
  model,
  request,
  runTool,
  limits,
  signal,
}: AgentOptions): AsyncGenerator<AgentEvent, void, undefined> {
  const messages: ChatMessage[] = [...request.messages];
  // What strangers wrote and the model has read by the call of this moment.
  let hasReadData = false;
  let hasText = false;
  let toolsRun = 0;

  for (let round = 1; ; round += 1) {
    const isLast = round === limits.rounds || toolsRun >= limits.toolCalls;
    const stream = model.streamChat({
      ...request,
      operation: 'chat',
      messages,
      tools: isLast ? [] : request.tools,
      maxOutputTokens: limits.outputTokens,
      signal,
    });
    const calls: ToolCall[] = [];
    let text = '';
    let end: Extract<ChatPart, { type: 'end' }> | undefined;
    for await (const part of stream) {
      if (part.type === 'text') {
        // What was said before the tools is a paragraph of its own.
        if (text === '' && hasText) yield { type: 'text', text: '\n\n' };
        hasText = true;
        text += part.text;
        yield { type: 'text', text: part.text };
      } else if (part.type === 'tool_call') calls.push(part.call);
      else end = part;
    }
    if (end?.reason === 'length') throw problem('answer_too_long');
    // A model that asks for tools which it was not given has nothing more to say.
    if (calls.length === 0 || isLast) {
      if (!hasText) throw problem('model_failed', { detail: 'It answered nothing. Try again.' });
      return;
    }

    messages.push({ role: 'assistant', content: text, toolCalls: calls });
    let readsData = false;
    for (const call of calls) {
      signal.throwIfAborted();
      yield { type: 'tool.started', call };
      const result: ToolResult =
        toolsRun < limits.toolCalls
          ? await runTool(call, { hasReadData })
          : refused(`at most ${limits.toolCalls} tools are run for one answer`);
      toolsRun += 1;
      readsData ||= result.isData;
      const { status, output, kept } = result;
      const used = { ...call, status, output: kept, round };
      yield { type: 'tool.finished', call, result, used };
      messages.push({ role: 'tool', toolCallId: call.id, toolName: call.name, content: output });
    }
    hasReadData ||= readsData;
  }
}
