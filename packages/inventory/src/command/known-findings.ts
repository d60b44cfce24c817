import { existsSync } from 'node:fs';
import { dirname } from 'node:path';
import type { Finding } from '../finding.ts';
import { MAX_BASELINE_BYTES } from '../limits.ts';
import { Baseline, BaselineError, parseBaseline } from '../lint/baseline.ts';
import type { FileResult } from '../output/reporter.ts';
import { count } from '../output/wording.ts';
import { writeFailureAsUsage } from './file-failure.ts';
import { readText } from './read-text.ts';
import { writeWhole } from './replace-file.ts';
import { UsageError } from './usage-error.ts';

/** What `--baseline` does: which findings are not told, and what there is to say about them at the end. */
export type KnownFindings = {
  ignores: (finding: Finding) => boolean;
  /**
   * @returns A line to tell; null when there is nothing to say.
   * @throws UsageError when the file cannot be written.
   */
  end(results: readonly FileResult[]): Promise<string | null>;
};

/**
 * Reads the file of `--baseline`, if there is one.
 * @param isUpdating Takes in what is found, in place of what the file had of the files that are checked.
 * @throws UsageError when it cannot be read, is no baseline, or none is given to be updated.
 */
export async function knownFindings(
  file: string | undefined,
  isUpdating: boolean,
): Promise<KnownFindings> {
  if (file === undefined) {
    if (!isUpdating) return { ignores: () => false, end: async () => null };
    throw new UsageError('--update-baseline needs to know where: give --baseline FILE');
  }
  const folder = dirname(file);
  const isNew = isUpdating && !existsSync(file);
  const known = isNew ? new Baseline(folder) : await read(file);
  return isUpdating ? update(file, known, new Baseline(folder)) : keepQuiet(file, known);
}

function keepQuiet(file: string, known: Baseline): KnownFindings {
  return {
    ignores: (finding) => known.has(finding),
    async end(results) {
      const gone = known.gone(results.filter(isRead).map((result) => result.file));
      if (gone === 0) return null;
      return `${count(gone, 'finding')} of ${file} not found any more; write it anew with --update-baseline`;
    },
  };
}

function update(file: string, known: Baseline, found: Baseline): KnownFindings {
  return {
    ignores: (finding) => found.add(finding),
    async end(results) {
      // What stands behind the end of the reading would be new at the next time.
      const unread = results.find((result) => !isRead(result));
      if (unread !== undefined) {
        return `${file} is left as it was, since ${unread.file} was not read to its end`;
      }
      known.replace(
        results.map((result) => result.file),
        found,
      );
      await writeWhole(file, known.toString()).catch((error: unknown) => {
        throw writeFailureAsUsage(error, file);
      });
      const errors = results.reduce((sum, result) => sum + result.errors, 0);
      const left =
        errors === 0 ? '' : `; ${count(errors, 'error')} cannot be put there: correct what is told`;
      return `${count(found.size, 'finding')} written to ${file}${left}`;
    },
  };
}

async function read(file: string): Promise<Baseline> {
  const text = await readText(file, {
    maxBytes: MAX_BASELINE_BYTES,
    advice: 'lint fewer files with it, or mend what is found most',
  });
  try {
    return parseBaseline(text, file);
  } catch (error) {
    if (!(error instanceof BaselineError)) throw error;
    throw new UsageError(error.message, { cause: error });
  }
}

function isRead({ isComplete, status }: FileResult): boolean {
  return isComplete && status !== 'unreadable';
}
