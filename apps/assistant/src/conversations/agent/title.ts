import type { ChatPart, ModelClient } from '@oselya/model';
import { cutText, storable } from '../../text.ts';
import { cutToTokens } from './window.ts';

/** Maximum characters of a token on average, in any language. */
export const TOKEN_LENGTH = 6;

/**
 * Reads a model's text until it is long enough: not every server obeys a limit.
 * @param isEnough Returns whether the rest of the text is of no use.
 * @throws What the stream throws.
 */
export async function readText(
  parts: AsyncIterable<ChatPart>,
  {
    maxTokens,
    isEnough = () => false,
  }: { maxTokens: number; isEnough?: (text: string) => boolean },
): Promise<string> {
  let text = '';
  for await (const part of parts) {
    if (part.type === 'text') text += part.text;
    if (text.length > maxTokens * TOKEN_LENGTH || isEnough(text)) break;
  }
  return text;
}

/** The instructions for a title. */
export const TITLE_SYSTEM =
  "Give the conversation that begins with the person's message a title of at most six words, in the language of the message. Answer with the title alone, without quotes and without a final stop.";

/** Text after the first line is no title. */
const hasLine = (text: string) => text.trimStart().includes('\n');

const MAX_LENGTH = 80;
const MAX_TOKENS = 40;

/** Maximum tokens of the message that are sent, which fit into every window. */
const MAX_MESSAGE_TOKENS = 1000;

/**
 * Asks the model for the title of a conversation by its first message.
 * @returns One line of at most 80 characters; empty if the model gives none.
 * @throws ModelError as the model client does.
 */
export async function generateTitle(
  model: Pick<ModelClient, 'streamChat'>,
  { text, modelName, signal }: { text: string; modelName: string; signal: AbortSignal },
): Promise<string> {
  const parts = model.streamChat({
    operation: 'title',
    ...(modelName !== '' && { model: modelName }),
    system: TITLE_SYSTEM,
    messages: [{ role: 'user', content: cutToTokens(text, MAX_MESSAGE_TOKENS) }],
    maxOutputTokens: MAX_TOKENS,
    signal,
  });
  const title = await readText(parts, { maxTokens: MAX_TOKENS, isEnough: hasLine });
  const [line = ''] = storable(title).trim().split('\n');
  const bare = line.trim().replace(/^["'«“]+|["'»”.]+$/gu, '');
  return cutText(bare, MAX_LENGTH).trim();
}
