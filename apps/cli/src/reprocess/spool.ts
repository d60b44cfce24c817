import { once } from 'node:events';
import { createReadStream, createWriteStream } from 'node:fs';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { finished } from 'node:stream/promises';

/** Values that wait on disk, since they may be too many for the memory. */
export type Spool<Value> = AsyncDisposable & {
  add(value: Value): Promise<void>;
  /** All values in the order in which they came. Nothing can be added any more. */
  values(): AsyncGenerator<Value>;
};

/** Opens a spool in a temporary folder that only its owner can read, and that goes with it. */
export async function openSpool<Value>(): Promise<Spool<Value>> {
  const folder = await mkdtemp(join(tmpdir(), 'oselya-'));
  const path = join(folder, 'values.jsonl');
  const file = createWriteStream(path);
  await once(file, 'open');
  return {
    async add(value) {
      if (!file.write(`${JSON.stringify(value)}\n`)) await once(file, 'drain');
    },
    async *values() {
      await finished(file.end());
      const input = createReadStream(path);
      try {
        for await (const line of createInterface({ input })) {
          // Only `add` writes here.
          yield JSON.parse(line) as Value;
        }
      } finally {
        input.destroy();
      }
    },
    async [Symbol.asyncDispose]() {
      // A stream that is destroyed while it writes fails.
      if (!file.closed) await finished(file.end());
      await rm(folder, { recursive: true, force: true });
    },
  };
}
