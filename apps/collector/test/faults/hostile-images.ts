import type { ServerResponse } from 'node:http';
import { brotliCompressSync, constants, crc32, deflateSync, gzipSync } from 'node:zlib';
import { createImage, startServer } from '../support/images.ts';

/**
 * The address of the host, which no other test and no hostile value names: a collector may be
 * allowed to reach it, and nothing else.
 */
const ADDRESS = '127.0.0.2';

const KB = 1024;
/** Above the limit of an image (Contract 4, Images). */
const TOO_MUCH = 51 * KB * KB;

/** The relative frequency: retries take seconds, and large images take processor time. */
const RARELY = 0.2;
const SELDOM = 0.02;

type Behaviour = {
  name: string;
  answer: (response: ServerResponse) => void;
  /** The default is 1. */
  share?: number;
  /** Whether the image is usable. */
  isGood?: boolean;
};

const good = await createImage('png', { colour: 'orchid' });

/** Creates the head of an image with 3.6 gigapixels. */
function hugeImage(): Buffer {
  const [width, height] = [60_000, 60_000];
  const body = Buffer.alloc(17);
  body.write('IHDR');
  body.writeUInt32BE(width, 4);
  body.writeUInt32BE(height, 8);
  body.set([8, 2], 12);
  const [length, sum] = [Buffer.alloc(4), Buffer.alloc(4)];
  length.writeUInt32BE(13);
  sum.writeUInt32BE(crc32(body));
  return Buffer.concat([good.subarray(0, 8), length, body, sum, good.subarray(33)]);
}

/** Sends raw bytes and closes the connection. */
const raw = (bytes: string | Buffer) => (response: ServerResponse) => {
  response.socket?.end(bytes);
};

const sends =
  (status: number, headers: Record<string, string | number>, body: string | Buffer = '') =>
  (response: ServerResponse) => {
    response.writeHead(status, headers).end(body);
  };

const leadsTo = (location: string) => sends(302, { location });

/** Writes until the connection closes. */
function writeEndlessly(response: ServerResponse): void {
  const chunk = Buffer.alloc(64 * KB);
  const more = () => {
    while (!response.destroyed && response.write(chunk));
  };
  response.on('drain', more);
  more();
}

/** Sends the head slowly for a second. */
function dripHead(response: ServerResponse): void {
  const { socket } = response;
  const head = `HTTP/1.1 200 OK\r\nx-slow: 1\r\ncontent-length: ${good.length}\r\n\r\n`;
  let sent = 0;
  const timer = setInterval(() => {
    if (sent < head.length) socket?.write(head.slice(sent, (sent += 4)));
    else {
      clearInterval(timer);
      socket?.end(good);
    }
  }, 50);
  socket?.on('close', () => clearInterval(timer));
}

const brotliBomb = () =>
  brotliCompressSync(Buffer.alloc(TOO_MUCH), { params: { [constants.BROTLI_PARAM_QUALITY]: 1 } });

const BEHAVIOURS: readonly Behaviour[] = [
  { name: 'is good', answer: sends(200, {}, good), isGood: true },
  {
    name: 'calls an image a text',
    answer: sends(200, { 'content-type': 'text/plain' }, good),
    isGood: true,
  },
  { name: 'has slow headers', answer: dripHead, share: RARELY, isGood: true },
  { name: 'never ends', answer: writeEndlessly, share: SELDOM },
  {
    name: 'sends a bomb in gzip',
    answer: sends(200, { 'content-encoding': 'gzip' }, gzipSync(Buffer.alloc(TOO_MUCH))),
    share: SELDOM,
  },
  {
    name: 'sends a bomb in br',
    answer: sends(200, { 'content-encoding': 'br' }, brotliBomb()),
    share: SELDOM,
  },
  { name: 'sends gigapixels', answer: sends(200, { 'content-type': 'image/png' }, hugeImage()) },
  { name: 'leads to a private network', answer: leadsTo('http://10.0.0.1/image.png') },
  { name: 'leads to this machine', answer: leadsTo('http://127.0.0.1:1/image.png') },
  { name: 'leads to a cloud', answer: leadsTo('http://[::ffff:169.254.169.254]/latest') },
  { name: 'leads to a file', answer: leadsTo('file:///etc/passwd') },
  { name: 'leads to no address', answer: leadsTo('http://[') },
  { name: 'leads nowhere', answer: sends(302, {}) },
  { name: 'leads to itself', answer: leadsTo('?again') },
  {
    name: 'announces more than it sends',
    answer: raw(Buffer.concat([headOf(good.length + 100), good])),
    share: RARELY,
  },
  {
    name: 'announces less than it sends',
    answer: raw(Buffer.concat([headOf(good.length - 40), good])),
  },
  {
    name: 'announces too much',
    answer(response) {
      response.writeHead(200, { 'content-length': 10 ** 12 });
      response.write(good);
    },
  },
  {
    name: 'is cut amidst',
    answer(response) {
      response.write(good.subarray(0, 30), () => response.destroy());
    },
    share: RARELY,
  },
  {
    name: 'resets the connection',
    answer: (response) => void response.socket?.resetAndDestroy(),
    share: RARELY,
  },
  {
    name: 'sends half a compressed body',
    answer: sends(200, { 'content-encoding': 'deflate' }, deflateSync(good).subarray(0, 40)),
    share: RARELY,
  },
  { name: 'speaks no HTTP', answer: raw('220 mail.example ESMTP\r\n'), share: RARELY },
  {
    name: 'has an endless head',
    answer: raw(`HTTP/1.1 200 OK\r\nx: ${'x'.repeat(KB * KB)}`),
    share: RARELY,
  },
  { name: 'is broken', answer: sends(500, {}, '{}'), share: RARELY },
  { name: 'is busy for an hour', answer: sends(429, { 'retry-after': 3600 }) },
  { name: 'has nothing', answer: sends(404, {}) },
  { name: 'has an empty image', answer: sends(200, { 'content-type': 'image/png' }) },
  { name: 'sends a page', answer: sends(200, { 'content-type': 'image/png' }, '<!doctype html>') },
  {
    name: 'sends a drawing with a script',
    answer: sends(200, { 'content-type': 'image/svg+xml' }, '<svg><script>alert(1)</script></svg>'),
  },
  { name: 'sends half an image', answer: sends(200, {}, good.subarray(0, good.length / 2)) },
  { name: 'sends an unknown encoding', answer: sends(200, { 'content-encoding': 'rot13' }, good) },
];

function headOf(length: number): Buffer {
  return Buffer.from(`HTTP/1.1 200 OK\r\ncontent-length: ${length}\r\n\r\n`);
}

const total = BEHAVIOURS.reduce((sum, { share = 1 }) => sum + share, 0);

/** Starts a hostile image host. */
export async function startHostileImages() {
  const asked = new Map<string, number>();
  const server = await startServer(({ url = '' }, response) => {
    const behaviour = BEHAVIOURS[Number(url.split('/')[1])];
    if (behaviour === undefined) {
      response.writeHead(404).end();
      return;
    }
    asked.set(behaviour.name, (asked.get(behaviour.name) ?? 0) + 1);
    behaviour.answer(response);
  }, ADDRESS);
  return {
    ...server,
    address: ADDRESS,
    /** Counts by behaviour. */
    asked,
    behaviours: BEHAVIOURS.length,
    /** Returns an image address; equal numbers give equal addresses. */
    addressOf(random: () => number): string {
      let left = random() * total;
      const index = BEHAVIOURS.findIndex(({ share = 1 }) => (left -= share) < 0);
      return `${server.url}/${Math.max(0, index)}/${Math.floor(random() * 1e9)}`;
    },
    /** Returns whether the image at an address is usable. */
    isGood: (url: string) =>
      BEHAVIOURS[Number(URL.parse(url)?.pathname.split('/')[1])]?.isGood === true,
  };
}
