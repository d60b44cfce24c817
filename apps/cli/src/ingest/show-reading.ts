import type { Output } from '../context.ts';
import { type Progress, showProgress } from '../progress.ts';
import { type Counts, countRecords } from './summary.ts';
import type { ReadBytes } from './text.ts';

const KIBIBYTE = 1024;

/** Where nobody knows how much there is, a line is written whenever so many more records are done. */
const STEP = 1000;

/** Shows how far a file has been worked through. */
export type ReadingProgress = Pick<Progress, 'clear' | 'stop'> & {
  /** @param end Where in the text the last record ends, in bytes of UTF-8. */
  update(counts: Readonly<Counts>, end: number): void;
  /** The file is done. */
  complete(counts: Readonly<Counts>): void;
};

/**
 * @param size The file's, in bytes; undefined where it is not known, as with standard input.
 * @param read What has been read of it: more than has been done, above all of a small file.
 * @param output As for `showProgress`.
 */
export function showReading(
  size: number | undefined,
  read: Readonly<ReadBytes>,
  output: Output,
): ReadingProgress {
  if (size === undefined) return showCount(output);
  const total = Math.ceil(size / KIBIBYTE);
  const progress = showProgress({ what: 'KiB', total }, output);
  return {
    ...progress,
    update(counts, end) {
      const bytes = (end / read.utf8Bytes) * read.bytes;
      progress.update(Math.min(Math.floor(bytes / KIBIBYTE), total - 1), countRecords(counts.read));
    },
    complete: (counts) => progress.update(total, countRecords(counts.read)),
  };
}

function showCount(output: Output): ReadingProgress {
  let told = 0;
  return {
    update({ read }) {
      if (read < told + STEP) return;
      told = read;
      output.write(`${countRecords(read)}\n`);
    },
    complete: () => undefined,
    clear: () => undefined,
    stop: () => undefined,
  };
}
