import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import type { ServerResponse } from 'node:http';
import { readdir, readFile, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { afterEach, test } from 'node:test';
import { brotliCompressSync, deflateSync, gzipSync, zstdCompressSync } from 'node:zlib';
import { createDownloader } from '../../src/images/download.ts';
import { ImageError } from '../../src/images/decode.ts';
import { createSafeFetch } from '../../src/safe-fetch/fetch.ts';
import { countOpenDescriptors, openFolder, until } from '@oselya/testing';
import { serve } from '../support/images.ts';

const folder = await openFolder();

const KIBIBYTE = 1024;
const bytes = Buffer.from('an image, as far as the download is concerned');
const idleSignal = new AbortController().signal;
const requestedPaths: string[] = [];

const encodings: Record<string, Buffer> = {
  gzip: gzipSync(bytes),
  deflate: deflateSync(bytes),
  br: brotliCompressSync(bytes),
  zstd: zstdCompressSync(bytes),
  identity: bytes,
  unknown: bytes,
  constructor: bytes,
};

type Respond = (
  argument: string,
  request: { requestCount: number },
) =>
  | {
      status?: number;
      headers?: Record<string, string | number>;
      body?: Buffer | undefined;
    }
  | ((response: ServerResponse) => void);

/** Responses by the first segment of the path. The argument is the second segment. */
const responses: Record<string, Respond> = {
  ok: () => ({ headers: { 'content-type': 'image/jpeg', 'content-length': bytes.length } }),
  status: (argument) => ({ status: Number(argument) }),
  recovers: (argument, { requestCount }) => ({ status: requestCount < 3 ? Number(argument) : 200 }),
  later: (argument, { requestCount }) =>
    requestCount < 2 ? { status: 503, headers: { 'retry-after': argument } } : {},
  resets: (_, { requestCount }) => (requestCount < 3 ? (response) => response.destroy() : {}),
  encoded: (argument) => ({
    headers: { 'content-encoding': argument },
    body: encodings[argument],
  }),
  bomb: () => ({
    headers: { 'content-encoding': 'gzip' },
    body: gzipSync(Buffer.alloc(5_000 * KIBIBYTE)),
  }),
  half: () => ({
    headers: { 'content-encoding': 'gzip' },
    body: encodings['gzip']?.subarray(0, 30),
  }),
  garbage: () => (response) => response.socket?.end('this is not HTTP\r\n\r\n'),
  endless: () => (response) => {
    const chunk = Buffer.alloc(64 * KIBIBYTE);
    const fillBuffer = () => {
      while (response.write(chunk));
    };
    response.on('drain', fillBuffer);
    fillBuffer();
  },
  announced: () => ({
    headers: { 'content-length': 101 * KIBIBYTE },
    body: Buffer.alloc(101 * KIBIBYTE),
  }),
  short: () => (response) => {
    response.writeHead(200, { 'content-length': 1000 }).write('only this');
    response.socket?.end();
  },
  silent: () => (response) => response.writeHead(200).write('a'),
  hop: (argument) => ({
    status: 302,
    headers: { location: Number(argument) > 1 ? `/hop/${Number(argument) - 1}` : '/ok' },
  }),
  loop: () => ({ status: 301, headers: { location: '/loop' } }),
  nowhere: () => ({ status: 302 }),
  to: (argument) => ({ status: 307, headers: { location: decodeURIComponent(argument) } }),
};

const mainUrl = await serve((request, response) => {
  const path = request.url ?? '';
  requestedPaths.push(path);
  const [, kind = '', argument = ''] = path.split('/');
  const requestCount = countRequests(path);
  const reply = responses[kind]?.(argument, { requestCount }) ?? { status: 404 };
  if (typeof reply === 'function') reply(response);
  else response.writeHead(reply.status ?? 200, reply.headers).end(reply.body ?? bytes);
});

const download = createDownloader({
  fetch: createSafeFetch({ allow: ['127.0.0.1'] }),
  getFolder: () => folder,
  limits: { maxBytes: 100 * KIBIBYTE, retryDelayMs: 1, totalMs: 20_000 },
});

const countRequests = (path: string) =>
  requestedPaths.filter((requestedPath) => requestedPath === path).length;

afterEach(async () => {
  assert.deepEqual(await readdir(folder), [], 'a temporary file stayed');
});

async function fetchAndRemove(url: string) {
  const file = await download(url, idleSignal);
  const content = await readFile(file.path);
  await rm(file.path);
  return { ...file, content };
}

test('The bytes are saved with their hash and count, after up to five redirects', async () => {
  const file = await fetchAndRemove(`${mainUrl}/hop/5`);
  assert.deepEqual(file.content, bytes);
  assert.equal(file.sha256, createHash('sha256').update(bytes).digest('hex'));
  assert.equal(file.bytes, bytes.length);
});

test('A compressed body is decompressed', async () => {
  for (const encoding of ['gzip', 'deflate', 'br', 'zstd', 'identity']) {
    const { content } = await fetchAndRemove(`${mainUrl}/encoded/${encoding}`);
    assert.deepEqual(content, bytes, encoding);
  }
});

const createRedirectPath = (target: string) => `/to/${encodeURIComponent(target)}`;

const invalidResponses: [name: string, path: string, reason: RegExp, requests: number][] = [
  ['404', '/status/404', /status 404/, 1],
  ['403', '/status/403', /status 403/, 1],
  ['204', '/status/204', /status 204/, 1],
  ['500 that persists', '/status/500', /status 500/, 3],
  ['429 that persists', '/status/429', /status 429/, 3],
  ['408 that persists', '/status/408', /status 408/, 3],
  ['a body without an end', '/endless', /larger than 0\.09765625 MiB/, 1],
  ['a length above the limit', '/announced', /larger than/, 1],
  ['fewer bytes than announced', '/short', /could not be fetched/, 3],
  ['a small body that unpacks to a large one', '/bomb', /larger than/, 1],
  ['a redirect to such a body', createRedirectPath('/bomb'), /larger than/, 1],
  ['an unknown encoding', '/encoded/unknown', /unknown content encoding/, 1],
  ['an encoding named like a property', '/encoded/constructor', /unknown content encoding/, 1],
  ['no HTTP', '/garbage', /the response is not HTTP|HPE_/, 3],
  ['a redirect without a target', '/nowhere', /redirects to a malformed one/, 1],
  ['redirects in a circle', '/loop', /more than 5 times/, 6],
  ['six redirects', '/hop/6', /more than 5 times/, 1],
  ['half of a compressed body', '/half', /could not be fetched/, 3],
];

test('An invalid response is rejected with its reason, after three attempts if a retry may help', async () => {
  for (const [name, path, message, count] of invalidResponses) {
    const expected = { name: 'ImageError', message };
    await assert.rejects(download(mainUrl + path, idleSignal), expected, name);
    assert.equal(countRequests(path), count, name);
  }
});

test('A host that recovers within three attempts is retried', async () => {
  for (const path of ['/recovers/503', '/recovers/429', '/recovers/408', '/resets', '/later/0.1']) {
    assert.deepEqual((await fetchAndRemove(`${mainUrl}${path}`)).content, bytes);
    assert.equal(countRequests(path), path.startsWith('/later') ? 2 : 3);
  }
});

test('A Retry-After beyond the deadline ends the download with its retry time', async () => {
  const startedAt = Date.now();
  await assert.rejects(download(`${mainUrl}/later/3600`, idleSignal), (error) => {
    assert.ok(error instanceof ImageError && error.retryable);
    assert.match(error.message, /status 503/);
    const retryDelayMs = (error.retryAt?.getTime() ?? 0) - startedAt;
    return retryDelayMs >= 3_600_000 && retryDelayMs <= 3_600_000 + Date.now() - startedAt;
  });
  assert.equal(countRequests('/later/3600'), 1);
});

test('A redirect is checked like an address', async () => {
  let isReached = false;
  const forbiddenUrl = await serve((_request, response) => {
    isReached = true;
    response.end(bytes);
  }, '127.0.0.2');
  const targets = [
    forbiddenUrl,
    forbiddenUrl.replace('127.0.0.2', '[::ffff:7f00:2]'),
    forbiddenUrl.replace('127.0.0.2', '2130706434'),
    'http://user:pw@127.0.0.1/',
    'file:///etc/passwd',
    'ftp://127.0.0.1/',
    'http://[',
  ];
  for (const target of targets) {
    const url = mainUrl + createRedirectPath(target);
    await assert.rejects(download(url, idleSignal), { name: 'ImageError' }, target);
  }
  await assert.rejects(download(forbiddenUrl, idleSignal), { message: /private or reserved/ });
  assert.equal(isReached, false);
});

test('The connection uses the checked address, even if the name then has a different address', async () => {
  const addresses = ['127.0.0.1', '127.0.0.2'];
  let lookupCount = 0;
  const downloadRebinding = createDownloader({
    fetch: createSafeFetch({
      allow: ['127.0.0.1'],
      lookup: async () => [{ address: addresses[lookupCount++] ?? '127.0.0.2', family: 4 }],
    }),
    getFolder: () => folder,
    limits: { retryDelayMs: 1 },
  });
  const url = `http://rebinding.test:${new URL(mainUrl).port}/ok`;
  const file = await downloadRebinding(url, idleSignal);
  assert.equal(lookupCount, 1);
  await rm(file.path);
  await assert.rejects(downloadRebinding(url, idleSignal), { message: /private or reserved/ });
});

test('A host or a lookup that never responds fails at the deadline of all attempts', async () => {
  const { promise: never } = Promise.withResolvers<never>();
  const downloadBriefly = createDownloader({
    fetch: createSafeFetch({ allow: ['127.0.0.1'], lookup: () => never }),
    getFolder: () => folder,
    limits: { totalMs: 200 },
  });
  const expected = { name: 'ImageError', message: /longer than 0\.2 s/, retryable: true };
  for (const url of [`${mainUrl}/silent`, 'http://slow.test/']) {
    await assert.rejects(downloadBriefly(url, idleSignal), expected);
  }
});

test('Twenty aborted downloads leave no descriptor open', async () => {
  const haltingUrl = await serve((_request, response) => {
    response.writeHead(200);
    response.write(bytes);
  });
  const abortAll = async (count: number, descriptorsBefore: number) => {
    const abortController = new AbortController();
    const downloads = Array.from({ length: count }, () =>
      download(haltingUrl, abortController.signal),
    );
    const settledDownloads = Promise.allSettled(downloads);
    await until('files', async () => (await readdir(folder)).length === count);
    // Each download opens a file and both ends of a connection.
    assert.ok((await countOpenDescriptors()) >= descriptorsBefore + 3 * count);
    const reason = new Error('the worker is stopping');
    abortController.abort(reason);
    for (const result of await settledDownloads) {
      assert.ok(result.status === 'rejected' && result.reason === reason);
    }
  };
  // The first download opens descriptors that stay open, so it precedes the initial count.
  await abortAll(1, 0);
  await until('the host to be alone', async () => (await readdir(folder)).length === 0);
  const initialCount = await countOpenDescriptors();
  await abortAll(20, initialCount);
  await until('closed descriptors', async () => (await countOpenDescriptors()) <= initialCount);
});

test('A failed write to the disk is not an error of the image', async () => {
  const file = join(folder, 'a file');
  await writeFile(file, '');
  const downloadToFile = createDownloader({
    fetch: createSafeFetch({ allow: ['127.0.0.1'] }),
    getFolder: () => file,
  });
  await assert.rejects(downloadToFile(`${mainUrl}/ok`, idleSignal), { code: 'ENOTDIR' });
  await rm(file);
});
