import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { serveMethods } from '../../process/child.ts';
import { createImage } from '../image.ts';

/** Methods of the image host's process. */
export type ImageHost = {
  /** Starts a server with a different image at each path. Returns the server's URL. */
  start: () => Promise<string>;
  /** Returns the number of image requests since the last call. */
  count: () => number;
};

let requestCount = 0;

serveMethods({
  async start() {
    const server = createServer((request, response) => {
      requestCount += 1;
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
    const count = requestCount;
    requestCount = 0;
    return count;
  },
} satisfies ImageHost);
