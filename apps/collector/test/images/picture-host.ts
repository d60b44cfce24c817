import { createHash } from 'node:crypto';
import { picture } from './pictures.ts';
import { serve } from './server.ts';

export const sha256 = (bytes: Buffer) => createHash('sha256').update(bytes).digest('hex');

/** A host of pictures: what it has, by path, and what it was asked for; all else is 404. */
export async function openPictureHost() {
  const seen: string[] = [];
  const content = new Map<string, Buffer>();
  const url = await serve((request, response) => {
    const path = request.url ?? '';
    seen.push(path);
    const bytes = content.get(path);
    response
      .writeHead(bytes === undefined ? 404 : 200, { 'content-type': 'image/jpeg' })
      .end(bytes);
  });

  /** Puts a picture on the host. */
  async function put(path: string, ...options: Parameters<typeof picture>) {
    const bytes = await picture(...options);
    content.set(path, bytes);
    return { url: url + path, sha256: sha256(bytes), bytes };
  }

  return { url, seen, content, put };
}
