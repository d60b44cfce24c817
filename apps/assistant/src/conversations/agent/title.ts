import type { ChatPart, ModelClient } from '@oselya/model';
import { cutText, toStorableText } from '../../text.ts';
import { truncateToTokens } from './window.ts';

/** Upper bound on the average token length in any language, in characters. */
export const MAX_TOKEN_LENGTH = 6;

/**
 * Returns the text of a completion up to a token limit, because not every server enforces the limit.
 * @param isEnough Returns whether the text suffices and reading can stop.
 * @throws Errors of the stream.
 */
export async function readText(
  parts: AsyncIterable<ChatPart>,
  maxTokens: number,
  isEnough: (text: string) => boolean = () => false,
): Promise<string> {
  let text = '';
  for await (const part of parts) {
    if (part.type === 'text') text += part.text;
    if (text.length > maxTokens * MAX_TOKEN_LENGTH || isEnough(text)) break;
  }
  return text;
}

export const TITLE_INSTRUCTIONS =
  "Give the conversation that begins with the person's message a title of at most six words, in the language of the message. Answer with the title alone, without quotes and without a final stop.";

const hasCompleteLine = (text: string) => text.trimStart().includes('\n');

const MAX_TITLE_LENGTH = 80;
const MAX_TITLE_TOKENS = 40;

/** Maximum number of message tokens in the request. This many fit into every context window. */
const MAX_MESSAGE_TOKENS = 1000;

/**
 * Generates the title of a conversation from one of its messages.
 * @returns One line of at most 80 characters; empty if the model returns none.
 * @throws ModelError if the request fails.
 */
export async function generateTitle(
  model: Pick<ModelClient, 'streamChat'>,
  { text, modelName, signal }: { text: string; modelName: string; signal: AbortSignal },
): Promise<string> {
  const parts = model.streamChat({
    operation: 'title',
    ...(modelName !== '' && { model: modelName }),
    system: TITLE_INSTRUCTIONS,
    messages: [{ role: 'user', content: truncateToTokens(text, MAX_MESSAGE_TOKENS) }],
    maxOutputTokens: MAX_TITLE_TOKENS,
    signal,
  });
  const title = await readText(parts, MAX_TITLE_TOKENS, hasCompleteLine);
  const [line = ''] = toStorableText(title).trim().split('\n');
  const unquotedLine = line.trim().replace(/^["'«“]+|["'»”.]+$/gu, '');
  return cutText(unquotedLine, MAX_TITLE_LENGTH).trim();
}
