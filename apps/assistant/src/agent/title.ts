import type { ModelClient } from '@oselya/model';
import { cutText, storable } from '../text.ts';
import { cutToTokens } from './estimate.ts';
import { readText } from './read-text.ts';

/** How the instructions for a title begin. */
export const TITLE_SYSTEM =
  "Give the conversation that begins with the person's message a title of at most six words, in the language of the message. Answer with the title alone, without quotes and without a final stop.";

const MAX_LENGTH = 80;
const MAX_TOKENS = 40;

/** How much of a message names it, which fits into every window. */
const MAX_MESSAGE_TOKENS = 1000;

/** One line is a title; what follows is talk. */
const isEnough = (title: string) => title.trimStart().includes('\n');

/**
 * Has the model name a conversation by its first message.
 * @returns One line of at most 80 characters; empty where the model gave none.
 * @throws ModelError as the model client does.
 */
export async function makeTitle(
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
  const title = await readText(parts, { maxTokens: MAX_TOKENS, isEnough });
  const [line = ''] = storable(title).trim().split('\n');
  const bare = line.trim().replace(/^["'«“]+|["'»”.]+$/gu, '');
  return cutText(bare, MAX_LENGTH).trim();
}
