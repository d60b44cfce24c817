import { once } from 'node:events';
import type { ServerResponse } from 'node:http';
import { gzipSync } from 'node:zlib';
import type { Fault } from '../scripted-provider.ts';

const MEGABYTE = 1024 * 1024;

/** How much of the endless answer was taken off the provider's hands before the assistant hung up. */
export const sent = { bytes: 0 };

const json = { 'content-type': 'application/json' };

/** A hundred megabytes, as fast as they are taken. */
async function sendHugeAnswer(response: ServerResponse): Promise<void> {
  const chunk = Buffer.alloc(64 * 1024, ' ');
  const controller = new AbortController();
  response.on('close', () => controller.abort());
  sent.bytes = 0;
  response.writeHead(200, json);
  while (sent.bytes < 100 * MEGABYTE && !response.destroyed) {
    sent.bytes += chunk.length;
    if (!response.write(chunk)) {
      await once(response, 'drain', { signal: controller.signal }).catch(() => undefined);
    }
  }
  response.end();
}

/** Writes what is no HTTP, or not what its headers promise. */
const raw = (text: string) => (response: ServerResponse) => void response.socket?.end(text);

/** Small, and huge when it is unpacked. */
const bomb = gzipSync(Buffer.alloc(20 * MEGABYTE, ' '));

const deep = `${'['.repeat(100_000)}${']'.repeat(100_000)}`;

/**
 * What a provider answers, at any endpoint, when something is wrong with it or on the way to it. None
 * of these says anything about a token.
 */
export const outages: Record<string, Fault> = {
  'hangs up': 'disconnect',
  fails: { status: 500, body: '{"error":"invalid_grant"}' },
  'is behind a proxy that cannot reach it': { status: 502, body: '<h1>Bad gateway</h1>' },
  'is overloaded': { status: 503, headers: { 'retry-after': '3600' } },
  'is replaced by a page': {
    status: 200,
    body: '<!doctype html>',
    headers: { 'content-type': 'text/html' },
  },
  'is not found': { status: 404, body: '{"message":"no route"}' },
  'limits the rate': { status: 429, body: '{"error":"invalid_grant"}' },
  'is slow by its own word': { status: 408 },
  'is not found by a gateway': { status: 404, body: '{"error":"not_found"}' },
  'is not allowed that method': { status: 405 },
  'is forbidden by a gateway': { status: 403, body: '{"message":"Forbidden"}' },
  'is limited by a gateway': { status: 403, body: '{"error":"rate_limit_exceeded"}' },
  'is blocked for legal reasons': { status: 451, body: '<h1>Blocked</h1>' },
  'explains nothing': { status: 403 },
  'says that it is not itself': { status: 403, body: '{"error":"invalid_client"}' },
  'redirects to another place': { status: 302, headers: { location: 'http://127.0.0.1:1/' } },
  'redirects to itself': { status: 307, headers: { location: '/oauth/token' } },
  'redirects for good, to a file': { status: 308, headers: { location: 'file:///etc/passwd' } },
  'has nothing to say': { status: 204 },
  'answers with nothing': { status: 200 },
  'answers with garbage': { status: 200, body: '\u0000\uffff{]' },
  'answers with bytes that are no text': (response) =>
    void response.writeHead(200, json).end(Buffer.from([0xff, 0xfe, 0x00, 0xc3, 0x28])),
  'answers with another kind of JSON': { status: 200, body: '[1,"access_token",null]' },
  'answers with a number': { status: 200, body: '1e400' },
  'answers with JSON that is too deep': { status: 200, body: deep },
  'answers with a prototype': {
    status: 200,
    body: '{"__proto__":{"access_token":"a","sub":"u-1","email":"e@example.test"}}',
  },
  'answers with half of it': (response) =>
    response
      .writeHead(200, { ...json, 'content-length': '4000' })
      .write('{"access_token":"half', () => response.destroy()),
  'breaks off between two chunks': raw(
    'HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ntransfer-encoding: chunked\r\n\r\n8\r\n{"access\r\n',
  ),
  'miscounts a chunk': raw(
    'HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ntransfer-encoding: chunked\r\n\r\nzz\r\n{}\r\n0\r\n\r\n',
  ),
  'speaks no HTTP': raw('220 mail.example.test ESMTP\r\n'),
  'has endless headers': raw(`HTTP/1.1 200 OK\r\n${'x: y\r\n'.repeat(20_000)}\r\n{}`),
  'compresses wrongly': (response) =>
    void response.writeHead(200, { ...json, 'content-encoding': 'gzip' }).end('not gzip'),
  'sends a small answer that unpacks to a huge one': (response) =>
    void response.writeHead(200, { ...json, 'content-encoding': 'gzip' }).end(bomb),
  'answers with a hundred megabytes': (response) => void sendHugeAnswer(response),
};
