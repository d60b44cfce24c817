import { clearLine, createInterface, cursorTo } from 'node:readline';
import { SingleBar } from 'cli-progress';
import type { Io, Output } from './command.ts';

export type Progress = {
  /** @param note Short text next to the number. */
  update(doneCount: number, note?: string): void;
  /** Clears the bar before a line of output. The next update redraws it. */
  clear(): void;
  stop(): void;
};

export const silentProgress: Progress = {
  update: () => undefined,
  clear: () => undefined,
  stop: () => undefined,
};

/**
 * Shows progress: a bar on a terminal, otherwise a line for each tenth.
 * @param unit Plural noun of the counted items, such as `listings`.
 * @param output Standard error, so that standard output contains only results.
 */
export function showProgress(
  { unit, total }: { unit: string; total: number },
  output: Output,
): Progress {
  if (output.isTTY) return showBar(unit, total, output);
  let lastShownCount = 0;
  return {
    ...silentProgress,
    update(doneCount, note = '') {
      if (doneCount < Math.min(total, lastShownCount + total / 10) || doneCount === lastShownCount)
        return;
      lastShownCount = doneCount;
      output.write(`${doneCount} of ${total} ${unit}${note === '' ? '' : `: ${note}`}\n`);
    },
  };
}

function showBar(unit: string, total: number, stream: Output): Progress {
  const bar = new SingleBar({
    stream,
    format: `{bar} {value}/{total} ${unit} {note}| {eta_formatted} left`,
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
    update: (doneCount, note = '') =>
      bar.update(doneCount, { note: note === '' ? '' : `${note} ` }),
    clear: () => {
      clearLine(stream, 0);
      cursorTo(stream, 0);
    },
    stop,
  };
}

/**
 * Asks a yes-or-no question at the terminal. Other answers, the end of input and Ctrl-C count as no.
 * @param signal Signal that aborts the question, which counts as no.
 * @param onInterrupt Called on Ctrl-C.
 */
export async function confirm(
  question: string,
  { signal, onInterrupt }: { signal: AbortSignal | undefined; onInterrupt: () => void },
  { stdin, stderr }: Pick<Io, 'stdin' | 'stderr'>,
): Promise<boolean> {
  const terminal = createInterface({ input: stdin, output: stderr });
  const answer = Promise.withResolvers<string>();
  terminal.once('close', () => answer.resolve(''));
  terminal.once('SIGINT', () => {
    onInterrupt();
    terminal.close();
  });
  signal?.addEventListener('abort', () => terminal.close(), { once: true });
  if (signal?.aborted === true) terminal.close();
  else terminal.question(`${question} [y/N] `, answer.resolve);
  const isYes = /^y(es)?$/i.test((await answer.promise).trim());
  terminal.close();
  return isYes;
}
