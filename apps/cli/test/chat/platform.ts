import assert from 'node:assert/strict';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { PassThrough } from 'node:stream';
import { setTimeout as sleep } from 'node:timers/promises';
import { atEnd, findFreePort } from '@oselya/testing';
import { openTestDatabase } from '@oselya/testing/database';
import { start } from '@oselya/assistant';
import { createDevIdp } from '@oselya/dev-idp';
import { createLogger } from '@oselya/kit';
import { run } from '../../src/main.ts';
import { Browser } from '../support/browser.ts';

const CLIENT = { id: 'oselya', secret: 'chat-test-secret' };

/** Far longer than anything takes that is waited for, however busy the machine is. */
const LIMIT_MS = 30_000;

/** Assistants that share a database and the development provider, one for each environment given. */
export async function startPlatform(...environments: Record<string, string>[]) {
  const database = await openTestDatabase<never>();
  const [idpPort = 0, ...ports] = await Promise.all(
    [{}, ...environments].map(() => findFreePort()),
  );
  const issuer = `http://localhost:${idpPort}`;
  const redirectUris = ports.map((port) => `http://127.0.0.1:${port}/auth/callback`);
  const idp = await createDevIdp({ issuer, client: { ...CLIENT, redirectUris } });
  atEnd(idp.close);
  await idp.app.listen({ host: 'localhost', port: idpPort });

  const urls: string[] = [];
  for (const [index, port] of ports.entries()) {
    const running = await start(
      {
        ASSISTANT_PORT: String(port),
        BASE_URL: `http://127.0.0.1:${port}`,
        IDP_BASE_URL: issuer,
        IDP_CLIENT_ID: CLIENT.id,
        IDP_CLIENT_SECRET: CLIENT.secret,
        SVC_AUTH_ENCRYPTION_KEY: Buffer.alloc(32, 7).toString('base64url'),
        ...environments[index],
      },
      { database, log: createLogger({ level: 'silent', service: 'assistant' }) },
    );
    atEnd(running.close);
    urls.push(running.url);
  }
  return urls;
}

/** A configuration folder of one user. */
export function newHome(): string {
  const folder = mkdtempSync(join(tmpdir(), 'oselya-chat-'));
  atEnd(() => rmSync(folder, { recursive: true }));
  return folder;
}

// Each command listens for Ctrl-C until its process ends, which here has many of them.
process.setMaxListeners(100);

// Cursor movements of readline, and the style of notes.
// oxlint-disable-next-line no-control-regex -- escape sequences begin with a control character
const MOVES = /\u001B\[\d*[A-Zm]/g;

/** The command as it runs in this process, with what it has written so far. */
export class Terminal {
  readonly status: Promise<number>;
  readonly #stdin = Object.assign(new PassThrough(), { isTTY: false });
  #out = '';
  #errors = '';

  /** @param input What is on standard input; undefined for a person at a terminal, who types. */
  constructor(args: string[], env: Record<string, string>, input?: string) {
    const [stdout, stderr] = [new PassThrough(), new PassThrough()];
    stdout.on('data', (chunk) => (this.#out += String(chunk)));
    stderr.on('data', (chunk) => (this.#errors += String(chunk)));
    this.#stdin.isTTY = input === undefined;
    if (input !== undefined) this.#stdin.end(input);
    this.status = run(['chat', '--no-browser', ...args], {
      env,
      stdin: this.#stdin,
      stdout,
      stderr,
    });
  }

  get stdout(): string {
    return this.#out;
  }

  get stderr(): string {
    return this.#errors;
  }

  type(keys: string): void {
    this.#stdin.write(keys);
  }

  /** Waits until something was written, and gives what fits. */
  async sees(pattern: RegExp, where: 'stdout' | 'stderr' = 'stdout'): Promise<string[]> {
    for (const limit = Date.now() + LIMIT_MS; Date.now() < limit; await sleep(10)) {
      const found = pattern.exec(this[where].replace(MOVES, ''));
      if (found !== null) return [...found];
    }
    throw new Error(`${String(pattern)} was not written: ${this.#out}\n${this.#errors}`);
  }

  /** What was written once the command has ended. */
  async end(): Promise<{ status: number; stdout: string; stderr: string }> {
    const status = await this.status;
    // What was written last is still on its way through the streams.
    await sleep(0);
    return { status, stdout: this.#out, stderr: this.#errors };
  }
}

/** Opens the address that a terminal prints, and picks Olena at the provider. */
export async function comeToPage(terminal: Terminal, browser: Browser): Promise<string> {
  const [, address = ''] = await terminal.sees(/(http:\S+\/auth\/terminal\?\S+)/, 'stderr');
  const picker = await browser.open(address);
  const page = await browser.open(picker.url, new URLSearchParams({ account: 'u-olena' }));
  assert.equal(page.status, 200);
  return page.text();
}

/** Answers the page: agrees, or refuses. */
export async function answerPage(
  page: string,
  url: string,
  { browser, answer }: { browser: Browser; answer: 'confirm' | 'refuse' },
): Promise<Response> {
  const [, action = ''] = new RegExp(`action="(/auth/terminal/${answer}[^"]*)"`).exec(page) ?? [];
  return browser.open(url + action, new URLSearchParams());
}

/** Signs a terminal in, as its user does. */
export async function signIn(terminal: Terminal, url: string): Promise<void> {
  const browser = new Browser();
  const page = await comeToPage(terminal, browser);
  const back = await answerPage(page, url, { browser, answer: 'confirm' });
  assert.match(await back.text(), /It is signed in/);
  await terminal.sees(/Signed in as olena@example\.test\.\n/, 'stderr');
}
