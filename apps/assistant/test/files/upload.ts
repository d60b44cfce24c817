import type { Server } from '@oselya/kit';
import type { Browser } from '../helpers/assistant.ts';

/** Sends a body as it is, as the user of a browser; a type of null is none. */
export function upload(
  app: Server,
  { cookies }: Browser,
  url: string,
  {
    content,
    type = 'application/octet-stream',
    method = 'PUT',
  }: { content: Buffer; type?: string | null; method?: 'PUT' | 'PATCH' },
) {
  return app.inject({
    method,
    url,
    headers: type === null ? {} : { 'content-type': type },
    cookies: Object.fromEntries(cookies),
    payload: content,
  });
}
