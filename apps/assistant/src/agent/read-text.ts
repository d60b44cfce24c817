import type { ChatPart } from '@oselya/model';

/** More characters than a token has on average, in whatever language. */
export const TOKEN_LENGTH = 6;

/**
 * What a model says, read until it has said enough: a server that knows no limit is held to one here.
 * @param bounds.maxTokens The model was told of it.
 * @param bounds.isEnough Whether what comes after a text is of no use.
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
