import { once } from 'node:events';
import { createWriteStream } from 'node:fs';
import { CommandError } from '../command-error.ts';
import type { Row } from './row.ts';

/** Where the records that were not taken are kept, to be mended. */
export type Rejected = AsyncDisposable & {
  add(row: Row, reason: string): Promise<void>;
};

/** For a run that keeps none. */
export const noRejected: Rejected = {
  add: () => Promise.resolve(),
  [Symbol.asyncDispose]: () => Promise.resolve(),
};

/**
 * Opens a file for them, in place of an earlier one: JSON lines of `line`, `reason` and `record`, which is
 * the record as the file has it, or the beginning of what stands there instead.
 * @throws CommandError where it cannot be written.
 */
export async function openRejected(path: string): Promise<Rejected> {
  const file = createWriteStream(path);
  let failure: Error | undefined;
  file.on('error', (error) => {
    failure ??= error;
  });
  await once(file, 'open').catch((cause: unknown) => {
    throw new CommandError(`${path} cannot be written: ${String(cause)}`, { cause });
  });
  const check = () => {
    if (failure !== undefined) {
      throw new CommandError(`${path} cannot be written: ${failure.message}`, { cause: failure });
    }
  };
  return {
    async add(row, reason) {
      const record = 'fields' in row ? row.fields : row.found;
      const isFull = !file.write(`${JSON.stringify({ line: row.line, reason, record })}\n`);
      if (isFull && failure === undefined) await once(file, 'drain').catch(() => undefined);
      check();
    },
    async [Symbol.asyncDispose]() {
      await new Promise<void>((resolve) => file.end(resolve));
      check();
    },
  };
}
