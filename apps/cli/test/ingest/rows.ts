import { Readable } from 'node:stream';
import type { Row } from '../../src/ingest/row.ts';

/** Bytes in pieces of some size, as a file may come. */
export function pieces(content: string | Uint8Array, size = 7): AsyncIterable<Uint8Array> {
  const bytes = Buffer.from(content);
  const count = Math.ceil(bytes.length / size);
  return Readable.from(
    Array.from({ length: count }, (_, nth) => bytes.subarray(nth * size, (nth + 1) * size)),
  );
}

/** Text in pieces of so many characters. */
export async function* textPieces(content: string, size = 7): AsyncGenerator<string> {
  const characters = Array.from(content);
  for (let start = 0; start < characters.length; start += size) {
    yield await Promise.resolve(characters.slice(start, start + size).join(''));
  }
}

/** Rows in short: the line, and the fields or the reason. */
export async function collect(rows: AsyncIterable<Row>): Promise<[number, unknown][]> {
  const found: [number, unknown][] = [];
  for await (const row of rows) {
    found.push([row.line, 'fields' in row ? { ...row.fields } : row.reason]);
  }
  return found;
}
