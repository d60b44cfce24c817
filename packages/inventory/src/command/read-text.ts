import { createReadStream } from 'node:fs';
import { stat } from 'node:fs/promises';
import { MAX_TEXT_BYTES } from '../limits.ts';
import { isGzip } from '../input/gunzip.ts';
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
    const check = (bytes: number) => {
      if (bytes <= maxBytes) return;
      const limit = maxBytes / 1024 / 1024;
      throw new UsageError(`cannot read ${label}: it is larger than ${limit} MiB; ${advice}`);
    };
    // What a file is said to have need not be read for it; pipes, and some files, say nothing.
    if (!isStdin) check((await stat(file)).size);
    const chunks: Uint8Array[] = [];
    let length = 0;
    for await (const chunk of isStdin ? io.stdin : createReadStream(file)) {
      length += chunk.length;
      check(length);
      chunks.push(chunk);
    }
    return await decode(Buffer.concat(chunks), label);
  } catch (error) {
    throw readFailureAsUsage(error, label);
  }
}

async function decode(bytes: Buffer, label: string): Promise<string> {
  if (isGzip(bytes)) {
    throw new UsageError(`cannot read ${label}: it is packed with gzip; unpack it first`);
  }
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
