import { readFile } from 'node:fs/promises';
import { readUtf8 } from '../input/utf8.ts';
import type { InventoryIo } from '../io.ts';
import { readFailureAsUsage } from './file-failure.ts';
import { UsageError } from './usage-error.ts';

/**
 * The text of a file that is no inventory, such as a configuration; of standard input for `-`, where that can be
 * read. A byte order mark is passed over.
 * @throws UsageError when it cannot be read, or is no UTF-8.
 */
export async function readText(file: string, io?: InventoryIo): Promise<string> {
  const isStdin = file === '-' && io !== undefined;
  const label = isStdin ? '<stdin>' : file;
  try {
    const bytes = isStdin ? Buffer.concat(await Array.fromAsync(io.stdin)) : await readFile(file);
    return await decode(bytes, label);
  } catch (error) {
    throw readFailureAsUsage(error, label);
  }
}

async function decode(bytes: Buffer, label: string): Promise<string> {
  let text = '';
  for await (const piece of readUtf8(whole(bytes))) {
    if (Buffer.isBuffer(piece)) text += piece.toString();
    else if (piece.code !== 'encoding/bom') {
      throw new UsageError(`cannot read ${label}: ${piece.message}`);
    }
  }
  return text;
}

async function* whole(bytes: Buffer): AsyncGenerator<Buffer> {
  yield bytes;
}
