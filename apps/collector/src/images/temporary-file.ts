import { createHash, randomUUID } from 'node:crypto';
import { open, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { pipeline } from 'node:stream/promises';
import { MEBIBYTE } from '../schemas.ts';

/** Bytes of one picture, fetched or uploaded. Contract 4, Images; Specification 001, Limits. */
export const MAX_IMAGE_BYTES = 50 * MEBIBYTE;

/** A file that was received. It is temporary: whoever has it removes it. */
export type TemporaryFile = { path: string; sha256: string; bytes: number };

/** One that came with a payload, and the name that its sender gave it. */
export type UploadedFile = TemporaryFile & { name: string };

/**
 * Writes what comes into a temporary file, hashing and counting it on the way. Whatever happens, no file
 * stays behind a failure.
 * @param onBytes Called with how many bytes have come so far; what it throws ends the file.
 * @throws What `chunks` or `onBytes` throw; anything else is a failure of this machine, such as a full disk.
 */
export async function saveTemporary(
  folder: string,
  chunks: AsyncIterable<Uint8Array>,
  onBytes: (bytes: number) => void,
): Promise<TemporaryFile> {
  const path = join(folder, randomUUID());
  const hash = createHash('sha256');
  let bytes = 0;
  async function* measured() {
    for await (const chunk of chunks) {
      bytes += chunk.length;
      onBytes(bytes);
      hash.update(chunk);
      yield chunk;
    }
  }
  // Opened first: a stream that opens by itself can make the file after its failure was cleaned up.
  const file = await open(path, 'wx');
  try {
    await pipeline(measured, file.createWriteStream());
  } catch (error) {
    await rm(path, { force: true });
    throw error;
  } finally {
    await file.close();
  }
  return { path, sha256: hash.digest('hex'), bytes };
}
