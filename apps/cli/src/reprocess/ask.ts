import { createInterface } from 'node:readline/promises';
import type { Io } from '../context.ts';

/**
 * Asks the person at the terminal; anything but a yes is a no, and so is the end of the input.
 * @param takeBack Takes the question back.
 * @param onInterrupt Told of Ctrl-C, which the terminal hands to whoever reads from it; that is a no, too.
 */
export async function ask(
  question: string,
  { takeBack, onInterrupt }: { takeBack: AbortSignal | undefined; onInterrupt: () => void },
  { stdin, stderr }: Pick<Io, 'stdin' | 'stderr'>,
): Promise<boolean> {
  const lines = createInterface({ input: stdin, output: stderr });
  const closed = new Promise<string>((resolve) => lines.once('close', () => resolve('')));
  lines.once('SIGINT', () => {
    onInterrupt();
    lines.close();
  });
  try {
    const answer = await Promise.race([
      lines.question(`${question} [y/N] `, takeBack === undefined ? {} : { signal: takeBack }),
      closed,
    ]);
    return /^y(es)?$/i.test(answer.trim());
  } catch (error) {
    if (error instanceof Error && error.name === 'AbortError') return false;
    throw error;
  } finally {
    lines.close();
  }
}
