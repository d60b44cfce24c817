import { type FileHandle, mkdtemp, open, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

/** Values that wait on disk, since they may be too many for the memory. */
export type Spool<Value> = AsyncDisposable & {
  add(value: Value): Promise<void>;
  /** All values in the order in which they came. Nothing can be added any more. */
  values(): AsyncGenerator<Value>;
};

/**
 * Opens a spool in a temporary file that has no name any more: what it holds, such as phone numbers, nobody else can
 * read, and it is gone when the process ends, however that ends.
 */
export async function openSpool<Value>(): Promise<Spool<Value>> {
  const folder = await mkdtemp(join(tmpdir(), 'oselya-'));
  const file = await openNameless(folder);
  return {
    async add(value) {
      await file.appendFile(`${JSON.stringify(value)}\n`);
    },
    async *values() {
      let rest = '';
      // Not by `node:readline`, for which lines also end where JSON may have a character as it is.
      for await (const chunk of file.createReadStream({ start: 0, encoding: 'utf8' })) {
        const lines = `${rest}${String(chunk)}`.split('\n');
        rest = lines.pop() ?? '';
        // Only `add` writes here.
        for (const line of lines) yield JSON.parse(line) as Value;
      }
    },
    // A second time it does nothing: reading to the end closes it too.
    [Symbol.asyncDispose]: () => file.close(),
  };
}

/** Opens a file in a folder that goes at once, its name with it. */
async function openNameless(folder: string): Promise<FileHandle> {
  try {
    return await open(join(folder, 'values.jsonl'), 'wx+');
  } finally {
    await rm(folder, { recursive: true });
  }
}
