import type { ChatMessage } from '@oselya/model';

/** What stands for an answer without a word: it was cancelled before the first one, failed, or never came. */
export const NO_ANSWER = '(No answer came.)';

/**
 * A conversation in the shape that the templates of all models take: a question, the calls of tools and what these
 * gave, one answer, the next question. Several models' templates (Gemma, Mistral) refuse two questions or two answers
 * in a row, and an answer that nobody asked for, by an error for the whole request; so one answer that failed would
 * fail all the answers after it.
 *
 * What stands before the first question is left out. A question that was not answered stays one of its own, and what
 * is missing after it is said: joined to the next question it would be taken for a part of that. Answers that follow
 * one another are joined.
 * @param messages As they were stored; an answer that has no word is an empty one.
 */
export function alternate(messages: readonly ChatMessage[]): ChatMessage[] {
  const said: ChatMessage[] = [];
  for (const message of messages) {
    const last = said.at(-1);
    if (last === undefined && message.role !== 'user') continue;
    if (message.role === 'user' && last !== undefined && !isAnswer(last)) {
      said.push({ role: 'assistant', content: '' });
    }
    if (message.role === 'assistant' && last !== undefined && isAnswer(last)) {
      said.splice(-1, 1, { ...message, content: joined(last.content, message.content) });
    } else said.push(message);
  }
  return said.map((message) =>
    isAnswer(message) && message.content.trim() === ''
      ? { ...message, content: NO_ANSWER }
      : message,
  );
}

/** An answer ends the assistant's turn; a message that asks for tools goes on with what these give. */
const isAnswer = (message: ChatMessage) =>
  message.role === 'assistant' && (message.toolCalls ?? []).length === 0;

const joined = (...texts: string[]) => texts.filter((text) => text.trim() !== '').join('\n\n');
