import { spawn } from 'node:child_process';
import { hash, randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { createServer, type IncomingMessage } from 'node:http';
import type { AddressInfo } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import { isLoopback, isSameSecret, shortenCodeChallenge, SIGN_IN_STEP_MINUTES } from '@oselya/kit';
import { CommandError } from '../command.ts';
import { sanitizeLine } from '../terminal.ts';
import type { AssistantClient, SessionCookie } from './assistant-client.ts';

/** The assistant's time limit for both steps: the identity provider and the confirmation page. */
const TIMEOUT_MINUTES = 2 * SIGN_IN_STEP_MINUTES;

/**
 * Signs this terminal in with the user's browser. The browser sends a code to a loopback port, and the code is redeemed
 * with a PKCE verifier. RFC 8252, RFC 7636.
 * @param options.writeNote Called with messages for the user.
 * @throws CommandError if the user denies the sign-in, after the time limit, or if a request to the assistant fails.
 */
export async function signIn(
  assistant: AssistantClient,
  { opensBrowser, writeNote }: { opensBrowser: boolean; writeNote: (line: string) => void },
): Promise<SessionCookie> {
  const [verifier, state] = [createSecret(), createSecret()];
  const challenge = hash('sha256', verifier, 'base64url');
  const server = await listenForBrowser(state);
  const timeoutController = new AbortController();
  try {
    const query = new URLSearchParams({
      port: String(server.port),
      state,
      code_challenge: challenge,
      code_challenge_method: 'S256',
    });
    const url = `${assistant.url}/auth/terminal?${query.toString()}`;
    const { protocol, hostname } = new URL(assistant.url);
    if (protocol === 'http:' && !isLoopback(hostname)) {
      writeNote('This assistant uses plain http: others on the network can read everything.');
    }
    writeNote(`Sign in with your browser on this computer: ${url}`);
    writeNote(`The page must show the code ${shortenCodeChallenge(challenge)}`);
    if (opensBrowser) openBrowser(url);
    const timeout = sleep(TIMEOUT_MINUTES * 60_000, undefined, {
      signal: timeoutController.signal,
    });
    const result = await Promise.race([server.result, timeout.catch(() => undefined)]);
    if (result === undefined) {
      throw new CommandError(`no sign-in within ${TIMEOUT_MINUTES} minutes: run the command again`);
    }
    if ('error' in result) {
      throw new CommandError(
        'the sign-in was denied in the browser: run the command again to retry',
      );
    }
    const cookie = await assistant.redeemCode(result.code, verifier);
    // Another local user may have confirmed the sign-in with their account, so show the account.
    const account = await assistant.getAccount(cookie);
    writeNote(account === undefined ? 'Signed in.' : `Signed in as ${sanitizeLine(account)}.`);
    return cookie;
  } finally {
    timeoutController.abort();
    server.close();
  }
}

const createSecret = () => randomBytes(32).toString('base64url');

/** Result from the browser: a code, or an error if the user denied the sign-in. RFC 6749 §4.1.2. */
type BrowserResult = { code: string } | { error: string };

const createPage = (title: string, text: string) => `<!doctype html>
<html lang="en"><meta charset="utf-8"><title>${title} · Oselya</title>
<h1>${title}</h1><p>${text}</p></html>
`;

const DONE_PAGE = createPage(
  'Go back to the terminal',
  'It is signed in. You can close this page.',
);
const DENIED_PAGE = createPage('The terminal was not signed in', 'You can close this page.');
const NOT_FOUND_PAGE = createPage('Page not found', 'Start again with <code>oselya chat</code>.');

const PAGE_HEADERS = {
  'content-type': 'text/html; charset=utf-8',
  'content-security-policy': "default-src 'none'; frame-ancestors 'none'",
  'cache-control': 'no-store',
  'referrer-policy': 'no-referrer',
  'x-content-type-options': 'nosniff',
  connection: 'close',
};

/**
 * Listens on a free port of 127.0.0.1 for the browser of one sign-in. Responds with 404 to all requests except a
 * callback with the expected state. RFC 8252 §7.3, §8.3.
 */
async function listenForBrowser(state: string) {
  const { promise, resolve } = Promise.withResolvers<BrowserResult>();
  const server = createServer((request, response) => {
    const result = parseCallback(request, state);
    if (result === undefined) {
      response.writeHead(404, PAGE_HEADERS).end(NOT_FOUND_PAGE);
      return;
    }
    const page = 'code' in result ? DONE_PAGE : DENIED_PAGE;
    response.writeHead(200, PAGE_HEADERS).end(page, () => resolve(result));
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  return {
    port: (server.address() as AddressInfo).port,
    result: promise,
    close: () => {
      server.close();
      server.closeAllConnections();
    },
  };
}

function parseCallback(
  { method, url = '' }: IncomingMessage,
  state: string,
): BrowserResult | undefined {
  const parameters = URL.parse(url, 'http://127.0.0.1')?.searchParams;
  if (method !== 'GET' || !isSameSecret(parameters?.get('state') ?? '', state)) return undefined;
  const code = parameters?.get('code');
  if (code) return { code };
  const error = parameters?.get('error');
  return error ? { error } : undefined;
}

/** Programs that open a URL in the user's browser, with their first arguments. */
const BROWSER_COMMANDS: Readonly<Partial<Record<NodeJS.Platform, readonly [string, ...string[]]>>> =
  {
    darwin: ['open'],
    // `start` would pass the URL to a shell.
    win32: ['rundll32', 'url.dll,FileProtocolHandler'],
  };

/** Tries to open a URL in the browser. Ignores failures, because the URL was printed. */
function openBrowser(url: string): void {
  const [program, ...firstArguments] = BROWSER_COMMANDS[process.platform] ?? ['xdg-open'];
  const child = spawn(program, [...firstArguments, url], { stdio: 'ignore', detached: true });
  child.on('error', () => undefined);
  child.unref();
}
