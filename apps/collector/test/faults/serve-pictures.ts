import { createHash } from 'node:crypto';
import type { ServerResponse } from 'node:http';
import { picture } from '../images/pictures.ts';
import { startServer } from '../images/server.ts';

/** Serves a small picture of a colour of its own at each address that is one. */
export function servePictures() {
  return startServer(({ url: name = '' }, response) => {
    if (name.endsWith('.png')) void sendPicture(name, response);
    else response.writeHead(404).end();
  });
}

async function sendPicture(name: string, response: ServerResponse): Promise<void> {
  const colour = `#${createHash('sha256').update(name).digest('hex').slice(0, 6)}`;
  response.end(await picture('png', { width: 16, height: 12, colour }));
}
