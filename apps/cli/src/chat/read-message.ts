import type { Io } from '../command.ts';

/** Maximum size of standard input; longer text is not a message. */
const MAX_BYTES = 256 * 1024;

/**
 * Returns the message of a command: its words, or standard input.
 * @returns Undefined at a terminal without words.
 */
export async function readMessage(
  words: readonly string[],
  stdin: Io['stdin'],
): Promise<string | undefined> {
  if (words.length > 0) return words.join(' ').trim();
  if (stdin.isTTY === true) return undefined;
  const chunks: Buffer[] = [];
  let bytes = 0;
  for await (const chunk of stdin) {
    chunks.push(Buffer.from(chunk));
    bytes += chunk.length;
    if (bytes > MAX_BYTES) break;
  }
  return Buffer.concat(chunks).toString().trim();
}
