import assert from 'node:assert/strict';
import { rm } from 'node:fs/promises';
import { test } from 'node:test';
import { atEnd } from '@oselya/testing';
import { createLogger, createServer } from '@oselya/kit';
import sharp from 'sharp';
import { guardRoutes } from '../../src/access/guard.ts';

import { imageRoutes } from '../../src/images/routes.ts';
import { openImages, createImage, serve } from '../support/images.ts';

const { addListing, open, pathOf } = await openImages();
const { images } = open();
const bytes = await createImage('png', { width: 2000, height: 1000 });
const url = await serve((_request, response) => response.end(bytes));
const [outcome] = await images.processRemote({ ...(await addListing()), urls: [url] });
assert.ok(outcome !== undefined && 'sha256' in outcome);
const { sha256 } = outcome;

const key = { id: 'k', name: 'test', scopes: ['search' as const], source_slugs: null };
async function start(keys?: Parameters<typeof guardRoutes>[1]) {
  const app = await createServer({
    log: createLogger({ level: 'silent', service: 'test' }),
    openapi: { title: 'Test', description: 'A test.', version: '1' },
    bodyLimit: 1024,
  });
  await app.register(async (scope) => {
    guardRoutes(scope, keys);
    imageRoutes(scope, images);
  });
  atEnd(() => app.close());
  return app;
}
const app = await start();

test('An image is sent as it was stored, to be cached for ever', async () => {
  const answer = await app.inject(`/images/${sha256}`);
  assert.equal(answer.statusCode, 200);
  assert.deepEqual(answer.rawPayload, bytes);
  assert.equal(answer.headers['content-type'], 'image/png');
  assert.equal(answer.headers['cache-control'], 'public, max-age=31536000, immutable');
  assert.equal(answer.headers['x-content-type-options'], 'nosniff');
  assert.equal(answer.headers['etag'], `"${sha256}"`);
});

test('A thumbnail is a JPEG with another tag', async () => {
  for (const side of [320, 1024]) {
    const answer = await app.inject(`/images/${sha256}?size=${side}`);
    assert.equal(answer.headers['content-type'], 'image/jpeg');
    assert.equal(answer.headers['etag'], `"${sha256}-${side}"`);
    const { format, width, height } = await sharp(answer.rawPayload).metadata();
    assert.deepEqual([format, width, height], ['jpeg', side, side / 2]);
  }
});

test('A known tag is 304 with the headers of the image (RFC 9110 15.4.5)', async () => {
  for (const [query, tag] of [
    ['', `"${sha256}"`],
    ['?size=320', `"${sha256}-320"`],
  ]) {
    const sent = await app.inject(`/images/${sha256}${query}`);
    for (const ifNoneMatch of [tag, `W/${tag}`, `"other", W/"another",${tag}`]) {
      const headers = { 'if-none-match': ifNoneMatch };
      const answer = await app.inject({ url: `/images/${sha256}${query}`, headers });
      assert.deepEqual([answer.statusCode, answer.body], [304, ''], ifNoneMatch);
      for (const name of ['cache-control', 'etag', 'vary', 'x-content-type-options']) {
        assert.equal(answer.headers[name], sent.headers[name], `${name} for ${ifNoneMatch}`);
      }
      assert.equal(answer.headers['content-length'], undefined);
    }
  }
  for (const ifNoneMatch of [`"${sha256}-320"`, '"other"', sha256, '']) {
    const headers = { 'if-none-match': ifNoneMatch };
    const answer = await app.inject({ url: `/images/${sha256}`, headers });
    assert.equal(answer.statusCode, 200, ifNoneMatch);
  }
});

test('The tag * fits every image, and the time of a copy is ignored (RFC 9110 13.1.2, 13.1.3)', async () => {
  for (const [hash, expected] of [
    [sha256, 304],
    ['0'.repeat(64), 404],
  ] as const) {
    const headers = { 'if-none-match': '*' };
    const answer = await app.inject({ url: `/images/${hash}`, headers });
    assert.equal(answer.statusCode, expected);
    assert.equal(answer.headers['etag'], expected === 304 ? `"${sha256}"` : undefined);
  }
  const since = 'Thu, 01 Jan 1970 00:00:00 GMT';
  const headers = { 'if-none-match': `"${sha256}"`, 'if-modified-since': since };
  assert.equal((await app.inject({ url: `/images/${sha256}`, headers })).statusCode, 304);
  const dated = await app.inject({
    url: `/images/${sha256}`,
    headers: { 'if-modified-since': since },
  });
  assert.equal(dated.statusCode, 200);
});

test('An unknown hash is 404 and is not cached; a malformed hash or size is 422', async () => {
  const answer = await app.inject(`/images/${'0'.repeat(64)}`);
  assert.deepEqual([answer.statusCode, answer.json().code], [404, 'image_not_found']);
  assert.equal(answer.headers['cache-control'], 'no-store');
  for (const path of [
    '/images/abc',
    `/images/${sha256.toUpperCase().replace(/^./, 'G')}`,
    '/images/..%2f..%2fetc%2fpasswd',
    `/images/${sha256}?size=321`,
    `/images/${sha256}?size=big`,
    `/images/${sha256}?width=320`,
  ]) {
    assert.equal((await app.inject(path)).statusCode, 422, path);
  }
});

test('With API keys an image requires a key and is cached privately', async () => {
  const guarded = await start({ verify: async (text) => (text === 'good' ? key : undefined) });
  assert.equal((await guarded.inject(`/images/${sha256}`)).statusCode, 401);
  const headers = { authorization: 'Bearer good' };
  const answer = await guarded.inject({ url: `/images/${sha256}`, headers });
  assert.equal(answer.statusCode, 200);
  assert.match(String(answer.headers['cache-control']), /^private, /);
  const known = { ...headers, 'if-none-match': `"${sha256}"` };
  const again = await guarded.inject({ url: `/images/${sha256}`, headers: known });
  assert.equal(again.statusCode, 304);
  assert.equal(again.headers['cache-control'], answer.headers['cache-control']);
});

test('An image that is missing from the store is 404', async () => {
  await rm(pathOf(sha256));
  for (const path of [`/images/${sha256}`, `/images/${sha256}?size=320`]) {
    assert.equal((await app.inject(path)).statusCode, 404);
    for (const known of ['*', `"${sha256}"`, `"${sha256}-320"`]) {
      const headers = { 'if-none-match': known };
      assert.equal((await app.inject({ url: path, headers })).statusCode, 404, known);
    }
  }
});
