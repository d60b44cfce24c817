import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { serveMethods } from '../../process/child.ts';
import { createImage } from '../image.ts';

/** Methods of the image host's process. */
export type ImageHost = {
  /** Starts to serve a different image at each path, and returns the address. */
  start: () => Promise<string>;
  /** Number of image requests since the last call. */
  count: () => number;
};

let asked = 0;

serveMethods({
  async start() {
    const server = createServer((request, response) => {
      asked += 1;
      response.writeHead(200, { 'content-type': 'image/png' });
      response.end(createImage(request.url ?? ''));
    });
    await new Promise<void>((resolve) => {
      server.listen(0, '127.0.0.1', resolve);
    });
    const { port } = server.address() as AddressInfo;
    return `http://127.0.0.1:${port}`;
  },
  count() {
    const now = asked;
    asked = 0;
    return now;
  },
} satisfies ImageHost);
