import { Readable } from 'node:stream';
import { createGunzip } from 'node:zlib';

/** Whether bytes begin as gzip does (RFC 1952 §2.3.1). */
export function isGzip(head: Uint8Array): boolean {
  return head[0] === 0x1f && head[1] === 0x8b;
}

/** Unpacks bytes that begin as gzip does (RFC 1952 §2.3.1), and passes others on as they are. */
export async function* gunzip(chunks: AsyncIterable<Buffer>): AsyncGenerator<Buffer> {
  const iterator = chunks[Symbol.asyncIterator]();
  const head = await readHead(iterator);
  const all = startingWith(head, iterator);
  if (!isGzip(head)) {
    yield* all;
    return;
  }
  const packed = Readable.from(all);
  const unpacked = createGunzip();
  packed.once('error', (error) => unpacked.destroy(error));
  try {
    yield* packed.pipe(unpacked);
  } finally {
    packed.destroy();
  }
}

/** The first chunks, until there are the two bytes that tell. */
async function readHead(iterator: AsyncIterator<Buffer>): Promise<Buffer> {
  let head = Buffer.alloc(0);
  while (head.length < 2) {
    const { value, done } = await iterator.next();
    if (done) break;
    head = Buffer.concat([head, value]);
  }
  return head;
}

async function* startingWith(
  head: Buffer,
  iterator: AsyncIterator<Buffer>,
): AsyncGenerator<Buffer> {
  try {
    if (head.length > 0) yield head;
    for (;;) {
      const { value, done } = await iterator.next();
      if (done) return;
      yield value;
    }
  } finally {
    await iterator.return?.();
  }
}
