import type { ChatMessage, ChatRequest, ToolDefinition } from '@oselya/model';
import { alternate, NO_ANSWER } from './alternate.ts';
import type { Context, SaidMessage } from './context.ts';
import { sum, tokensOf } from './estimate.ts';
import { systemText } from './system-text.ts';
import { readUsedTools } from './used-tools.ts';

/** What the model is sent of a conversation. */
export type AgentRequest = Pick<ChatRequest, 'model' | 'system' | 'messages' | 'tools'>;

/**
 * Writes down for the model what `buildContext` chose.
 * @param profile.model The name of a model; empty for the configured one.
 * @param now Shown as a day: prices and reviews are of some time.
 */
export function toAgentRequest({
  context,
  profile,
  tools,
  now,
}: {
  context: Context;
  profile: { model: string };
  tools: readonly ToolDefinition[];
  now: Date;
}): AgentRequest {
  return {
    ...(profile.model !== '' && { model: profile.model }),
    system: systemText(context, now),
    messages: [
      ...earlier(context.summary),
      ...alternate(inTurns(context.messages).flatMap(toChatMessages)),
    ],
    tools,
  };
}

/** About how many tokens a summary is in a request. */
export const tokensOfSummary = (summary: string): number => sum(earlier(summary).map(tokensOf));

/** About how many tokens a stored message is in a request at most: what stands for a missing answer is counted too. */
export function tokensOfMessage(message: SaidMessage): number {
  const mayBeUnanswered = message.role === 'user' || message.content.trim() === '';
  const said = [...toChatMessages(message), ...(mayBeUnanswered ? [UNANSWERED] : [])];
  return sum(said.map(tokensOf));
}

const UNANSWERED = { role: 'assistant' as const, content: NO_ANSWER };

/**
 * What was said before, as the assistant's own words: a summary may repeat what strangers wrote, and has no more to
 * say than the messages that it stands for.
 */
function earlier(summary: string | null): ChatMessage[] {
  if (summary === null || summary.trim() === '') return [];
  return [
    { role: 'user', content: '(Earlier messages are left out.) What was said in them?' },
    { role: 'assistant', content: summary },
  ];
}

/** What came by itself between a question and an answer that was tried again comes after that answer. */
function inTurns(messages: Context['messages']): Context['messages'] {
  const said: Context['messages'] = [];
  let later: Context['messages'] = [];
  for (const message of messages) {
    if (message.unasked === true && (later.length > 0 || said.at(-1)?.role === 'user')) {
      later.push(message);
      continue;
    }
    said.push(...(message.role === 'user' ? [...later, message] : [message, ...later]));
    later = [];
  }
  return [...said, ...later];
}

/** A stored message as the model once said or read it, with the tools of each round before its text. */
function toChatMessages({
  role,
  content,
  tool_calls,
  unasked = false,
}: Context['messages'][number]): ChatMessage[] {
  if (role === 'user') return [{ role, content }];
  if (role !== 'assistant') return [];
  // Nobody asked for it, and models expect questions and answers to take turns.
  if (unasked) {
    return [
      { role: 'user', content: '(A saved search has news.)' },
      { role, content },
    ];
  }
  const used = readUsedTools(tool_calls);
  const rounds = Map.groupBy(used, ({ round }) => round);
  const asked = [...rounds.values()].flatMap((tools): ChatMessage[] => [
    {
      role: 'assistant',
      content: '',
      toolCalls: tools.map(({ id, name, input }) => ({ id, name, input })),
    },
    ...tools.map(({ id, name, output }) => ({
      role: 'tool' as const,
      toolCallId: id,
      toolName: name,
      content: output,
    })),
  ]);
  return [...asked, { role, content }];
}
