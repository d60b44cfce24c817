import { once } from 'node:events';
import { createWriteStream } from 'node:fs';
import { finished } from 'node:stream/promises';
import { CommandError } from '../command-error.ts';
import type { Row } from './row.ts';

/** Where the records that were not taken are kept, to be mended. */
export type Rejected = {
  /** @throws CommandError where what was added so far cannot be written. */
  add(row: Row, reason: string): Promise<void>;
  /** Waits until all is written. @throws CommandError where it cannot be. */
  end(): Promise<void>;
};

/** For a run that keeps none. */
export const noRejected: Rejected = {
  add: () => Promise.resolve(),
  end: () => Promise.resolve(),
};

/**
 * Opens a file for them, in place of an earlier one: JSON lines of `line`, `reason` and `record`, which is
 * the record as the file has it, or the beginning of what stands there instead.
 * @throws CommandError where it cannot be written.
 */
export async function openRejected(path: string): Promise<Rejected> {
  const unwritable = (cause: unknown) =>
    new CommandError(
      `${path} cannot be written: ${cause instanceof Error ? cause.message : String(cause)}`,
      { cause },
    );
  const file = createWriteStream(path);
  // It is told to whoever adds the next record, or ends it.
  file.on('error', () => undefined);
  await once(file, 'open').catch((cause: unknown) => {
    throw unwritable(cause);
  });
  return {
    async add(row, reason) {
      const record = 'fields' in row ? row.fields : row.found;
      const isFull = !file.write(`${JSON.stringify({ line: row.line, reason, record })}\n`);
      if (isFull && file.errored === null) await once(file, 'drain').catch(() => undefined);
      if (file.errored !== null) throw unwritable(file.errored);
    },
    async end() {
      file.end();
      await finished(file).catch((cause: unknown) => {
        throw unwritable(cause);
      });
    },
  };
}
