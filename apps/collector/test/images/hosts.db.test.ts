import assert from 'node:assert/strict';
import type { ServerResponse } from 'node:http';
import { test } from 'node:test';
import { brotliCompressSync, deflateSync, gzipSync } from 'node:zlib';
import { openDescriptors } from '../support/raw-http.ts';
import { until } from '../support/until.ts';
import { openImages } from './harness.ts';
import { picture } from './pictures.ts';
import { serve } from './server.ts';

const KB = 1024;
const { addListing, open, rowsOf, files } = await openImages();
const bytes = await picture('png', { colour: 'orchid' });

/** Writes for as long as anybody reads. */
function writeEndlessly(response: ServerResponse): void {
  const chunk = Buffer.alloc(64 * KB);
  const more = () => {
    while (!response.destroyed && response.write(chunk));
  };
  response.on('drain', more);
  more();
}

/** A byte now and then, so that no wait between two bytes is long. */
function drip(response: ServerResponse): void {
  const timer = setInterval(() => response.write('x'), 20);
  response.on('close', () => clearInterval(timer));
}

/** What each host does, and the reason that is recorded. */
const faults: [string, (response: ServerResponse) => void, RegExp][] = [
  ['never ends', writeEndlessly, /larger than 0\.1\d* MB/],
  [
    'never ends, compressed',
    (response) => {
      response.writeHead(200, { 'content-encoding': 'gzip' });
      response.end(gzipSync(Buffer.alloc(20_000 * KB)));
    },
    /larger than/,
  ],
  [
    'bomb in brotli',
    (response) => {
      response.writeHead(200, { 'content-encoding': 'br' });
      response.end(brotliCompressSync(Buffer.alloc(20_000 * KB)));
    },
    /larger than/,
  ],
  ['drips', drip, /longer than 2 s to fetch/],
  ['says nothing', () => undefined, /longer than 2 s to fetch/],
  [
    'announces more than it sends',
    (response) => {
      response.writeHead(200, { 'content-length': bytes.length + 100 });
      response.write(bytes, () => response.socket?.end());
    },
    /could not be fetched/,
  ],
  [
    'announces less than it sends',
    (response) => {
      response.socket?.end(
        Buffer.concat([
          Buffer.from(`HTTP/1.1 200 OK\r\ncontent-length: ${bytes.length - 40}\r\n\r\n`),
          bytes,
        ]),
      );
    },
    /broken|could not be fetched/,
  ],
  [
    'announces too much',
    (response) => {
      response.writeHead(200, { 'content-length': 10 ** 12 });
      response.write(bytes);
    },
    /larger than/,
  ],
  [
    'closes midway',
    (response) => {
      response.write(bytes.subarray(0, 30), () => response.destroy());
    },
    /could not be fetched/,
  ],
  [
    'sends half a compressed body',
    (response) => {
      response.writeHead(200, { 'content-encoding': 'deflate' });
      const whole = deflateSync(bytes);
      response.end(whole.subarray(0, whole.length / 2));
    },
    /could not be fetched/,
  ],
  [
    'leads to a private address',
    (response) => {
      response.writeHead(302, { location: 'http://10.0.0.1/picture.png' }).end();
    },
    /private or reserved/,
  ],
  [
    'leads to an address of a cloud',
    (response) => {
      response.writeHead(301, { location: 'http://[::ffff:169.254.169.254]/latest' }).end();
    },
    /private or reserved/,
  ],
  [
    'leads to a file',
    (response) => {
      response.writeHead(307, { location: 'file:///etc/passwd' }).end();
    },
    /must be http or https/,
  ],
  ['sends an error', (response) => response.writeHead(500).end('{}'), /status 500/],
];

test(
  'whatever a host does wrong is recorded, and nothing of it stays',
  { timeout: 60_000 },
  async () => {
    const host = await serve((request, response) => {
      const fault = faults[Number(request.url?.slice(1))];
      if (fault === undefined) response.end(bytes);
      else fault[1](response);
    });
    const limits = { bytes: 150 * KB, retryDelayMs: 1, totalMs: 2000 };
    const { images, failures } = open({ limits });
    const listing = await addListing();
    // What is opened once and stays, such as connections of the database, is open after this.
    await images.processRemote({ ...listing, urls: [`${host}/good`] });
    const descriptors = await openDescriptors();
    const kept = await files();

    const urls = [...faults.map((_, index) => `${host}/${index}`), `${host}/good`];
    await images.processRemote({ ...listing, urls });
    const rows = await rowsOf(listing.listingId);
    for (const [index, [name, , reason]] of faults.entries()) {
      assert.match(rows[index]?.error ?? '', reason, name);
    }
    assert.equal(rows.at(-1)?.error, null, 'a good picture is not touched by bad ones');
    assert.deepEqual(await files(), kept, 'a temporary file stayed');
    assert.deepEqual(failures, []);
    await until('closed connections', async () => (await openDescriptors()) <= descriptors);
  },
);
