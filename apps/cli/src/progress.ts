import { clearLine, createInterface, cursorTo } from 'node:readline';
import { SingleBar } from 'cli-progress';
import type { Io, Output } from './command.ts';

/** Progress display of a long command. */
export type Progress = {
  /** @param note Short text next to the number. */
  update(done: number, note?: string): void;
  /** Clears the bar before a line of output. The next update redraws it. */
  clear(): void;
  stop(): void;
};

/** Progress display without output. */
export const silentProgress: Progress = {
  update: () => undefined,
  clear: () => undefined,
  stop: () => undefined,
};

/** Share of the total per progress line if the output is not a terminal. */
const STEP = 0.1;

/**
 * Shows progress: a bar on a terminal, otherwise a line for each tenth.
 * @param what Plural noun of the counted items, such as `listings`.
 * @param output Standard error, so that standard output contains only results.
 */
export function showProgress(
  { what, total }: { what: string; total: number },
  output: Output,
): Progress {
  if (output.isTTY) return showBar(what, total, output);
  let shown = 0;
  return {
    ...silentProgress,
    update(done, note = '') {
      if (done < Math.min(total, shown + total * STEP) || done === shown) return;
      shown = done;
      output.write(`${done} of ${total} ${what}${note === '' ? '' : `: ${note}`}\n`);
    },
  };
}

function showBar(what: string, total: number, stream: Output): Progress {
  const bar = new SingleBar({
    stream,
    format: `{bar} {value}/{total} ${what} {note}| {eta_formatted} left`,
    barCompleteChar: '█',
    barIncompleteChar: '░',
    barsize: 30,
    hideCursor: true,
    fps: 5,
    // The command handles Ctrl-C.
    gracefulExit: false,
  });
  const stop = () => {
    process.off('exit', stop);
    bar.stop();
  };
  // Restore the cursor when the process exits.
  process.once('exit', stop);
  bar.start(total, 0, { note: '' });
  return {
    update: (done, note = '') => bar.update(done, { note: note === '' ? '' : `${note} ` }),
    clear: () => {
      clearLine(stream, 0);
      cursorTo(stream, 0);
    },
    stop,
  };
}

/**
 * Asks a yes-or-no question at the terminal. Other answers, the end of input and Ctrl-C count as no.
 * @param signal Withdraws the question.
 * @param onInterrupt Called on Ctrl-C.
 */
export async function confirm(
  question: string,
  { signal, onInterrupt }: { signal: AbortSignal | undefined; onInterrupt: () => void },
  { stdin, stderr }: Pick<Io, 'stdin' | 'stderr'>,
): Promise<boolean> {
  const lines = createInterface({ input: stdin, output: stderr });
  const { promise, resolve } = Promise.withResolvers<string>();
  lines.once('close', () => resolve(''));
  lines.once('SIGINT', () => {
    onInterrupt();
    lines.close();
  });
  signal?.addEventListener('abort', () => lines.close(), { once: true });
  if (signal?.aborted === true) lines.close();
  else lines.question(`${question} [y/N] `, resolve);
  const answer = await promise;
  lines.close();
  return /^y(es)?$/i.test(answer.trim());
}
