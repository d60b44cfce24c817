import { createReadStream } from 'node:fs';
import { MAX_TEXT_BYTES } from '../limits.ts';
import { readUtf8 } from '../input/utf8.ts';
import type { InventoryIo } from '../io.ts';
import { readFailureAsUsage } from './file-failure.ts';
import { UsageError } from './usage-error.ts';

/**
 * The text of a file that is no inventory, such as a configuration; of standard input for `-`, where that can be
 * read. A byte order mark is passed over.
 * @param advice What to do when it is larger than the limit.
 * @throws UsageError when it cannot be read, is no UTF-8, or is larger than the limit.
 */
export async function readText(
  file: string,
  {
    io,
    maxBytes = MAX_TEXT_BYTES,
    advice = 'give a part of it',
  }: { io?: InventoryIo; maxBytes?: number; advice?: string } = {},
): Promise<string> {
  const isStdin = file === '-' && io !== undefined;
  const label = isStdin ? '<stdin>' : file;
  try {
    const chunks: Uint8Array[] = [];
    let length = 0;
    for await (const chunk of isStdin ? io.stdin : createReadStream(file)) {
      chunks.push(chunk);
      length += chunk.length;
      if (length <= maxBytes) continue;
      const limit = maxBytes / 1024 / 1024;
      throw new UsageError(`cannot read ${label}: it is larger than ${limit} MiB; ${advice}`);
    }
    return await decode(Buffer.concat(chunks), label);
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
