import { createInterface } from 'node:readline/promises';
import type { Io } from '../context.ts';

/** Asks the person at the terminal; anything but a yes is a no, and so is the end of the input. */
export async function ask(
  question: string,
  signal: AbortSignal | undefined,
  { stdin, stderr }: Pick<Io, 'stdin' | 'stderr'>,
): Promise<boolean> {
  const lines = createInterface({ input: stdin, output: stderr });
  const closed = new Promise<string>((resolve) => lines.once('close', () => resolve('')));
  try {
    const answer = await Promise.race([
      lines.question(`${question} [y/N] `, signal === undefined ? {} : { signal }),
      closed,
    ]);
    return /^y(es)?$/i.test(answer.trim());
  } catch (error) {
    // Ctrl-C, which the terminal hands to whoever reads from it.
    if (error instanceof Error && error.name === 'AbortError') return false;
    throw error;
  } finally {
    lines.close();
  }
}
