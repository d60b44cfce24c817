import { clearLine, cursorTo } from 'node:readline';
import { SingleBar } from 'cli-progress';
import type { Output } from './context.ts';

/** Tells the person who waits how far a long command is. */
export type Progress = {
  /** @param note What is worth knowing beside the number, in a few words. */
  update(done: number, note?: string): void;
  /** Makes room for a line of output; the next update shows it again below. */
  clear(): void;
  /** Ends it; the next line of output stands by itself. */
  stop(): void;
};

/** For a command that prints so much to the terminal that it shows by itself how far it is. */
export const noProgress: Progress = {
  update: () => undefined,
  clear: () => undefined,
  stop: () => undefined,
};

/** Without a terminal a line is written whenever so much more is done, and at the end. */
const STEP = 0.1;

/**
 * Shows progress: a bar on a terminal, else a line for each tenth.
 * @param what Is counted, such as `listings`.
 * @param output Standard error, so that results on standard output can go to a file.
 */
export function showProgress(
  { what, total }: { what: string; total: number },
  output: Output,
): Progress {
  return output.isTTY ? bar(what, total, output) : lines(what, total, output);
}

function bar(what: string, total: number, stream: Output): Progress {
  const single = new SingleBar({
    stream,
    format: `{bar} {value}/{total} ${what} {note}| {eta_formatted} left`,
    barCompleteChar: '█',
    barIncompleteChar: '░',
    barsize: 30,
    hideCursor: true,
    fps: 5,
    // The command decides what Ctrl-C does.
    gracefulExit: false,
  });
  const stop = () => {
    process.off('exit', stop);
    single.stop();
  };
  // However the process ends, the terminal gets its cursor back.
  process.once('exit', stop);
  single.start(total, 0, { note: '' });
  return {
    update: (done, note = '') => single.update(done, { note: note === '' ? '' : `${note} ` }),
    clear: () => {
      clearLine(stream, 0);
      cursorTo(stream, 0);
    },
    stop,
  };
}

function lines(what: string, total: number, stream: Output): Progress {
  let told = 0;
  return {
    update(done, note = '') {
      if (done < Math.min(total, told + total * STEP) || done === told) return;
      told = done;
      stream.write(`${done} of ${total} ${what}${note === '' ? '' : `: ${note}`}\n`);
    },
    clear: () => undefined,
    stop: () => undefined,
  };
}
