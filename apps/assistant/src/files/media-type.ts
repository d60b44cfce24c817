import { isUtf8 } from 'node:buffer';
import { fileTypeFromBuffer } from 'file-type';

/** Of what is stored and nobody knows. */
export const UNKNOWN_TYPE = 'application/octet-stream';

/** Of everything that is text, whatever it says: nothing of it is to be run. */
export const TEXT_TYPE = 'text/plain; charset=utf-8';

/** What a file is, by its content: neither its name nor its sender is believed. */
export async function mediaTypeOf(content: Uint8Array): Promise<string> {
  const found = await fileTypeFromBuffer(content);
  // Marked-up text is told by its beginning, and is text all the same.
  if (found !== undefined && !/xml|html/.test(found.mime)) return found.mime;
  return isUtf8(content) && !content.includes(0) ? TEXT_TYPE : UNKNOWN_TYPE;
}
