import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { answerParent } from '../../process/child.ts';
import { makePicture } from '../picture.ts';

/** The questions that the process of a picture host answers. */
export type PictureHost = {
  /** Starts to serve another picture at each path, and gives the address. */
  start: () => Promise<string>;
  /** How many pictures were asked for since it was asked last. */
  count: () => number;
};

let asked = 0;

answerParent({
  async start() {
    const server = createServer((request, response) => {
      asked += 1;
      response.writeHead(200, { 'content-type': 'image/png' });
      response.end(makePicture(request.url ?? ''));
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
} satisfies PictureHost);
