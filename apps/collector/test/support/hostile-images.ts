import type { ServerResponse } from 'node:http';
import { brotliCompressSync, constants, crc32, deflateSync, gzipSync } from 'node:zlib';
import { createImage, startServer } from './images.ts';

/** Host address that no other test and no hostile value uses. */
const HOST_ADDRESS = '127.0.0.2';

const KIBIBYTE = 1024;
/** Size above the image size limit. */
const OVERSIZED_BYTES = 51 * KIBIBYTE * KIBIBYTE;

/** Relative frequency of behaviours that take seconds. */
const LOW_SHARE = 0.2;
/** Relative frequency of behaviours that take much processor time. */
const VERY_LOW_SHARE = 0.02;

/** Behaviour of an image host, with its relative frequency, and whether the image is usable. */
type Behaviour = [
  name: string,
  (response: ServerResponse) => void,
  share?: number,
  isGood?: boolean,
];

const goodImage = await createImage('png', { colour: 'orchid' });

/** Creates a small image file whose header declares 3.6 gigapixels. */
function createHugeImage(): Buffer {
  const [width, height] = [60_000, 60_000];
  const body = Buffer.alloc(17);
  body.write('IHDR');
  body.writeUInt32BE(width, 4);
  body.writeUInt32BE(height, 8);
  body.set([8, 2], 12);
  const [length, checksum] = [Buffer.alloc(4), Buffer.alloc(4)];
  length.writeUInt32BE(13);
  checksum.writeUInt32BE(crc32(body));
  return Buffer.concat([goodImage.subarray(0, 8), length, body, checksum, goodImage.subarray(33)]);
}

/** Creates a function that sends raw bytes and closes the connection. */
const sendRaw = (bytes: string | Buffer) => (response: ServerResponse) => {
  response.socket?.end(bytes);
};

const send =
  (status: number, headers: Record<string, string | number>, body: string | Buffer = '') =>
  (response: ServerResponse) => {
    response.writeHead(status, headers).end(body);
  };

const sendEncoded = (encoding: string, body: Buffer) =>
  send(200, { 'content-encoding': encoding }, body);

const redirectTo = (location: string) => send(302, { location });

/** Writes until the connection closes. */
function writeEndlessly(response: ServerResponse): void {
  const chunk = Buffer.alloc(64 * KIBIBYTE);
  const fillBuffer = () => {
    while (!response.destroyed && response.write(chunk));
  };
  response.on('drain', fillBuffer);
  fillBuffer();
}

function sendHeadersSlowly(response: ServerResponse): void {
  const { socket } = response;
  const head = `HTTP/1.1 200 OK\r\nx-slow: 1\r\ncontent-length: ${goodImage.length}\r\n\r\n`;
  let sentLength = 0;
  const timer = setInterval(() => {
    if (sentLength < head.length) socket?.write(head.slice(sentLength, (sentLength += 4)));
    else {
      clearInterval(timer);
      socket?.end(goodImage);
    }
  }, 50);
  socket?.on('close', () => clearInterval(timer));
}

const createBrotliBomb = () =>
  brotliCompressSync(Buffer.alloc(OVERSIZED_BYTES), {
    params: { [constants.BROTLI_PARAM_QUALITY]: 1 },
  });

const BEHAVIOURS: readonly Behaviour[] = [
  ['is good', send(200, {}, goodImage), 1, true],
  ['labels an image as text', send(200, { 'content-type': 'text/plain' }, goodImage), 1, true],
  ['has slow headers', sendHeadersSlowly, LOW_SHARE, true],
  ['never ends', writeEndlessly, VERY_LOW_SHARE],
  [
    'sends a gzip bomb',
    sendEncoded('gzip', gzipSync(Buffer.alloc(OVERSIZED_BYTES))),
    VERY_LOW_SHARE,
  ],
  ['sends a brotli bomb', sendEncoded('br', createBrotliBomb()), VERY_LOW_SHARE],
  ['sends gigapixels', send(200, { 'content-type': 'image/png' }, createHugeImage())],
  ['redirects to a private network', redirectTo('http://10.0.0.1/image.png')],
  ['redirects to this machine', redirectTo('http://127.0.0.1:1/image.png')],
  ['redirects to a cloud', redirectTo('http://[::ffff:169.254.169.254]/latest')],
  ['redirects to a file', redirectTo('file:///etc/passwd')],
  ['redirects to an invalid URL', redirectTo('http://[')],
  ['redirects without a URL', send(302, {})],
  ['redirects to itself', redirectTo('?again')],
  [
    'sends too little',
    sendRaw(Buffer.concat([createHead(goodImage.length + 100), goodImage])),
    LOW_SHARE,
  ],
  ['sends too much', sendRaw(Buffer.concat([createHead(goodImage.length - 40), goodImage]))],
  ['announces a huge body', sendRaw(Buffer.concat([createHead(10 ** 12), goodImage]))],
  [
    'breaks off',
    (response) => response.write(goodImage.subarray(0, 30), () => response.destroy()),
    LOW_SHARE,
  ],
  ['resets the connection', (response) => response.socket?.resetAndDestroy(), LOW_SHARE],
  ['sends half a body', sendEncoded('deflate', deflateSync(goodImage).subarray(0, 40)), LOW_SHARE],
  ['does not speak HTTP', sendRaw('220 mail.example ESMTP\r\n'), LOW_SHARE],
  [
    'has an endless head',
    sendRaw(`HTTP/1.1 200 OK\r\nx: ${'x'.repeat(KIBIBYTE * KIBIBYTE)}`),
    LOW_SHARE,
  ],
  ['is broken', send(500, {}, '{}'), LOW_SHARE],
  ['is busy for an hour', send(429, { 'retry-after': 3600 })],
  ['has no image', send(404, {})],
  ['has an empty image', send(200, { 'content-type': 'image/png' })],
  ['sends a page', send(200, { 'content-type': 'image/png' }, '<!doctype html>')],
  [
    'sends a script',
    send(200, { 'content-type': 'image/svg+xml' }, '<svg><script>alert(1)</script></svg>'),
  ],
  ['sends half an image', send(200, {}, goodImage.subarray(0, goodImage.length / 2))],
  ['sends an unknown encoding', sendEncoded('rot13', goodImage)],
];

function createHead(length: number): Buffer {
  return Buffer.from(`HTTP/1.1 200 OK\r\ncontent-length: ${length}\r\n\r\n`);
}

const totalShare = BEHAVIOURS.reduce((sum, [, , share = 1]) => sum + share, 0);

/** Starts a hostile image host. */
export async function startHostileImages() {
  const requestCounts = new Map<string, number>();
  const server = await startServer(({ url = '' }, response) => {
    const behaviour = BEHAVIOURS[Number(url.split('/')[1])];
    if (behaviour === undefined) {
      response.writeHead(404).end();
      return;
    }
    const [name, respond] = behaviour;
    requestCounts.set(name, (requestCounts.get(name) ?? 0) + 1);
    respond(response);
  }, HOST_ADDRESS);
  return {
    ...server,
    address: HOST_ADDRESS,
    /** Number of requests by behaviour. */
    requestCounts,
    /** Returns a random image URL. */
    createRandomUrl(random: () => number): string {
      let remainingShare = random() * totalShare;
      const index = BEHAVIOURS.findIndex(([, , share = 1]) => (remainingShare -= share) < 0);
      return `${server.url}/${Math.max(0, index)}/${Math.floor(random() * 1e9)}`;
    },
    /** Returns whether the image at a URL is usable. */
    isGood: (url: string) =>
      BEHAVIOURS[Number(URL.parse(url)?.pathname.split('/')[1])]?.[3] === true,
  };
}
