import type { Io } from '../command.ts';

/** As much of standard input as is read: whatever is longer is no message anyway. */
const MAX_BYTES = 256 * 1024;

/**
 * The message of a command: its words, else what is on standard input.
 * @returns Undefined where a person is to be asked, at a terminal.
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
