import { once } from 'node:events';
import { createServer, type IncomingMessage } from 'node:http';
import type { AddressInfo } from 'node:net';
import { isSameSecret } from '@oselya/kit';

/** What the browser brings: a code, or that the person refused. RFC 6749 §4.1.2. */
export type Brought = { code: string } | { error: string };

const page = (title: string, text: string) => `<!doctype html>
<html lang="en"><meta charset="utf-8"><title>${title} · Oselya</title>
<h1>${title}</h1><p>${text}</p></html>
`;

const DONE = page('Go back to the terminal', 'It is signed in. You can close this page.');
const REFUSED = page('Nothing was signed in', 'You can close this page.');
const UNKNOWN = page('Nothing is here', 'Begin again with <code>oselya chat</code>.');

const HEADERS = {
  'content-type': 'text/html; charset=utf-8',
  'content-security-policy': "default-src 'none'; frame-ancestors 'none'",
  'cache-control': 'no-store',
  'referrer-policy': 'no-referrer',
  'x-content-type-options': 'nosniff',
  connection: 'close',
};

/**
 * Listens on a free port of 127.0.0.1 for the browser of one sign-in. Whatever does not know the state is
 * answered 404, and waited on. RFC 8252 §7.3, §8.3.
 */
export async function listenForBrowser(state: string) {
  const brought = Promise.withResolvers<Brought>();
  const server = createServer((request, response) => {
    const found = read(request, state);
    const body = found === undefined ? UNKNOWN : 'code' in found ? DONE : REFUSED;
    response.writeHead(found === undefined ? 404 : 200, HEADERS).end(body, () => {
      if (found !== undefined) brought.resolve(found);
    });
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo;
  return {
    port,
    brought: brought.promise,
    close: () => {
      server.close();
      server.closeAllConnections();
    },
  };
}

function read({ method, url = '' }: IncomingMessage, state: string): Brought | undefined {
  const parameters = URL.parse(url, 'http://127.0.0.1')?.searchParams;
  if (method !== 'GET' || !isSameSecret(parameters?.get('state') ?? '', state)) return undefined;
  const [code, error] = [parameters?.get('code'), parameters?.get('error')];
  if (code) return { code };
  return error ? { error } : undefined;
}
