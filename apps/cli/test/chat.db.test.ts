import assert from 'node:assert/strict';
import { mkdirSync, readFileSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { PassThrough } from 'node:stream';
import { test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { stripVTControlCharacters } from 'node:util';
import { start } from '@oselya/assistant';
import { createDevIdp } from '@oselya/dev-idp';
import { createLogger } from '@oselya/kit';
import { createChunk, createStreamedResponse, startModelServer } from '@oselya/model/testing';
import {
  deferCleanup,
  Browser,
  findFreePort,
  findUnusedUrl,
  openFolder,
  type Page,
  startProcess,
  startProxy,
  startServer,
  until,
} from '@oselya/testing';
import { openTestDatabase } from '@oselya/testing/database';
import { run } from '../src/main.ts';
import { BIN } from './support/oselya.ts';

/** Text that the model rejects. */
const REJECTED_TEXT = 'Зламайся';

const QUESTION = 'двокімнатна у Львові до 15000 грн';

const CLIENT = { id: 'oselya', secret: 'chat-test-secret' };

/** Starts an assistant for each environment. The assistants share a database and the development provider. */
async function startPlatform(...environments: Record<string, string>[]) {
  const database = await openTestDatabase<never>();
  const [idpPort = 0, ...ports] = await Promise.all(
    [{}, ...environments].map(() => findFreePort()),
  );
  const issuer = `http://localhost:${idpPort}`;
  const redirectUris = ports.map((port) => `http://127.0.0.1:${port}/auth/callback`);
  const idp = await createDevIdp({ issuer, client: { ...CLIENT, redirectUris } });
  deferCleanup(idp.close);
  await idp.app.listen({ host: 'localhost', port: idpPort });

  const urls: string[] = [];
  for (const [index, port] of ports.entries()) {
    const runningAssistant = await start(
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
    deferCleanup(runningAssistant.close);
    urls.push(runningAssistant.url);
  }
  return urls;
}

// Each command listens for Ctrl-C until its process ends. This process runs many commands.
process.setMaxListeners(100);

/** Terminal that runs `oselya chat` in this process. */
class Terminal {
  readonly status: Promise<number>;
  readonly #stdin = Object.assign(new PassThrough(), { isTTY: false });
  #out = '';
  #errors = '';

  /** @param input Standard input. Undefined for a terminal. */
  constructor(args: string[], env: Record<string, string>, input?: string) {
    const [stdout, stderr] = [new PassThrough(), new PassThrough()];
    stdout.on('data', (data) => (this.#out += String(data)));
    stderr.on('data', (data) => (this.#errors += String(data)));
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

  /** Waits until the output matches. Returns the match. */
  waitForOutput(pattern: RegExp, stream: 'stdout' | 'stderr' = 'stdout'): Promise<string[]> {
    const description = `${String(pattern)} in the output of the chat`;
    return until(description, () => pattern.exec(stripVTControlCharacters(this[stream])) ?? false);
  }

  /** Waits until the command ends. Returns its status and output. */
  async end(): Promise<{ status: number; stdout: string; stderr: string }> {
    const status = await this.status;
    // The streams may still contain the last output.
    await sleep(0);
    return { status, stdout: this.#out, stderr: this.#errors };
  }
}

/** Opens the URL that a terminal prints, and chooses Olena at the provider. */
async function openConfirmation(terminal: Terminal, browser: Browser): Promise<Page> {
  const [, url = ''] = await terminal.waitForOutput(/(http:\S+\/auth\/terminal\?\S+)/, 'stderr');
  const picker = await browser.open(url);
  return browser.open(picker.url, { account: 'u-olena' });
}

/** Confirms or denies the sign-in on its page. */
async function submitConfirmation(
  { url, body }: Page,
  browser: Browser,
  answer: 'confirm' | 'refuse',
): Promise<Page> {
  const [, action = ''] = new RegExp(`action="(/auth/terminal/${answer}[^"]*)"`).exec(body) ?? [];
  return browser.open(new URL(action, url), {});
}

/** Signs a terminal in through the browser. */
async function signIn(terminal: Terminal): Promise<void> {
  const browser = new Browser();
  const page = await openConfirmation(terminal, browser);
  const { body } = await submitConfirmation(page, browser, 'confirm');
  assert.match(body, /It is signed in/);
  await terminal.waitForOutput(/Signed in as olena@example\.test\.\n/, 'stderr');
}

const listing = {
  listing_id: 7,
  title: 'Здам двокімнатну\u001B[2J\u009B1m, Сихів',
  summary: null,
  description: 'Квартира біля парку.\u001B]0;назва\u0007',
  language: 'uk',
  deal_type: 'rent',
  property_type: 'apartment',
  price: 14_000,
  currency: 'UAH',
  city: 'Львів',
  district: 'Сихів',
  address: null,
  rooms: 2,
  area_total: 52,
  floor: 5,
  floors_total: 9,
  url: null,
  features: [],
};
const total = { value: 1, relation: 'eq' };
const results = { items: [{ listing, rank: 1 }], total, next_cursor: null, took_ms: 1 };
const collector = await startServer(({ method }) => ({
  body: method === 'POST' ? results : listing,
}));

/** Promise whose resolution releases the responses of the slow model. */
let slowModel = Promise.withResolvers<void>();
const model = await startModelServer(({ body }) => {
  const requestJson = JSON.stringify(body);
  if (requestJson.includes(REJECTED_TEXT))
    return { status: 400, body: { error: { message: 'no' } } };
  return requestJson.includes('a title of at most')
    ? createStreamedResponse([
        createChunk({ content: 'Назва' }),
        createChunk({}, { finishReason: 'stop' }),
      ])
    : createStreamedResponse([
        createChunk({ content: 'Шукаю' }),
        () => slowModel.promise,
        createChunk({ content: ', знайшов.' }),
        createChunk({}, { finishReason: 'stop' }),
      ]);
});
deferCleanup(() => model.close());

const COLLECTOR = { COLLECTOR_URL: collector.url };
const [mockUrl = '', slowUrl = ''] = await startPlatform(COLLECTOR, {
  ...COLLECTOR,
  MODEL_MODE: 'openai',
  MODEL_BASE_URL: model.url,
  MODEL_CHAT: 'slow',
});

const getCookiePath = (homeFolder: string) => join(homeFolder, 'oselya', 'sign-ins.json');
const readCookies = (homeFolder: string) =>
  JSON.parse(readFileSync(getCookiePath(homeFolder), 'utf8'));

/** Returns the request headers of a signed-in terminal. */
function readHeaders(homeFolder: string, url: string) {
  const { [url]: cookie } = readCookies(homeFolder);
  return { cookie: `${cookie.name}=${cookie.value}` };
}

/** Runs `oselya chat` with an empty standard input until it ends. */
const chat = (args: string[], env: Record<string, string>) => new Terminal(args, env, '').end();

const createEnv = (url: string, homeFolder: string) => ({
  BASE_URL: url,
  XDG_CONFIG_HOME: homeFolder,
});

/** Creates a home folder with a signed-in terminal. */
async function createSignedInHome(url: string): Promise<string> {
  const homeFolder = await openFolder();
  const terminal = new Terminal(['Привіт'], createEnv(url, homeFolder), '');
  await signIn(terminal);
  slowModel.resolve();
  assert.equal((await terminal.end()).status, 0);
  slowModel = Promise.withResolvers();
  return homeFolder;
}

const mockHome = await createSignedInHome(mockUrl);
const mockEnv = createEnv(mockUrl, mockHome);

// oxlint-disable-next-line no-control-regex -- matches the control characters that output must not have
const CONTROL_CHARACTERS = /[\u0000-\u0008\u000B-\u001F\u007F-\u009F]/;

test('a sign-in is stored for its assistant, readable by its user only', async () => {
  assert.equal(statSync(getCookiePath(mockHome)).mode & 0o777, 0o600);
  const cookies = readCookies(mockHome);
  assert.deepEqual(Object.keys(cookies), [mockUrl]);
  assert.equal(cookies[mockUrl].name, 'svc_auth_session');
});

test('a message on standard input prints the answer to stdout and the steps to stderr', async () => {
  const { status, stdout, stderr } = await new Terminal([], mockEnv, `${QUESTION}\n`).end();
  assert.equal(status, 0, stderr);
  assert.match(stdout, /Сихів[^]*\n$/);
  assert.match(stderr, /^… .+\n✓ .+$/m);
  assert.doesNotMatch(stderr, /Sign in/);
  assert.doesNotMatch(stdout + stderr, CONTROL_CHARACTERS);
});

test('--json prints one event a line in order', async () => {
  const { status, stdout } = await chat(['--json', QUESTION], mockEnv);
  assert.equal(status, 0);
  const lines = stdout.trim().split('\n');
  const events = lines.map((line): { type: string; seq: number } => JSON.parse(line));
  assert.equal(events[0]?.type, 'message.started');
  assert.equal(events.at(-1)?.type, 'message.completed');
  assert.deepEqual(
    events.map(({ seq }) => seq),
    events.map((_event, index) => index + 1),
  );
  assert.doesNotMatch(stdout, CONTROL_CHARACTERS);
});

test('--session continues a session and reports a missing one', async () => {
  const { stdout } = await chat(['--json', 'Привіт'], mockEnv);
  const { session_id: id } = JSON.parse(stdout.split('\n')[0] ?? '');
  const secondRun = await chat(['--json', '--session', id, QUESTION], mockEnv);
  assert.equal(JSON.parse(secondRun.stdout.split('\n')[0] ?? '').session_id, id);
  const wrongSessionRun = await chat(['--session', 'none', QUESTION], mockEnv);
  assert.equal(wrongSessionRun.status, 1);
  assert.match(
    wrongSessionRun.stderr,
    /^oselya: No such session: It does not exist or has been deleted\..*$/m,
  );
});

test('--profile starts a session and reports a missing profile', async () => {
  const { stdout } = await chat(['--json', '--profile', 'market', 'Привіт'], mockEnv);
  const { session_id: id } = JSON.parse(stdout.split('\n')[0] ?? '');
  const headers = readHeaders(mockHome, mockUrl);
  const session = await fetch(`${mockUrl}/sessions/${id}`, { headers });
  assert.equal(Object(await session.json()).profile_id, 'market');
  const wrongProfileRun = await chat(['--profile', 'none', QUESTION], mockEnv);
  assert.equal(wrongProfileRun.status, 1);
  assert.equal(wrongProfileRun.stdout, '');
});

test('the page shows account, port and code, and a denial creates no session', async () => {
  const homeFolder = await openFolder();
  const terminal = new Terminal([QUESTION], createEnv(mockUrl, homeFolder), '');
  const browser = new Browser();
  const page = await openConfirmation(terminal, browser);
  const [, code = ''] = await terminal.waitForOutput(/must show the code (\S{8})\n/, 'stderr');
  const [, port = ''] = await terminal.waitForOutput(/port=(\d+)/, 'stderr');
  for (const text of ['olena@example.test', code, `127.0.0.1:${port}`]) {
    assert.ok(page.body.includes(text), text);
  }
  // A callback with a guessed state does not end the wait.
  const guess = await fetch(`http://127.0.0.1:${port}/?code=a&state=${'A'.repeat(43)}`);
  assert.equal(guess.status, 404);
  const denialPage = await submitConfirmation(page, browser, 'refuse');
  assert.match(denialPage.body, /The terminal was not signed in/);
  const { status, stderr } = await terminal.end();
  assert.equal(status, 1);
  assert.match(stderr, /^oselya: the sign-in was denied in the browser/m);
  assert.throws(() => statSync(getCookiePath(homeFolder)), { code: 'ENOENT' });
});

test('an ended sign-in is replaced, and --sign-out ends it on the server', async () => {
  const homeFolder = await createSignedInHome(mockUrl);
  const env = createEnv(mockUrl, homeFolder);
  const firstHeaders = readHeaders(homeFolder, mockUrl);
  await fetch(`${mockUrl}/auth/logout`, { method: 'POST', headers: firstHeaders });

  const terminal = new Terminal([QUESTION], env, '');
  await terminal.waitForOutput(/This terminal was signed out: sign in again\./, 'stderr');
  await signIn(terminal);
  assert.equal((await terminal.end()).status, 0);

  const headers = readHeaders(homeFolder, mockUrl);
  assert.notDeepEqual(headers, firstHeaders);
  const signOut = await chat(['--sign-out'], env);
  assert.deepEqual(
    [signOut.status, signOut.stdout],
    [0, `This terminal is signed out at ${mockUrl}.\n`],
  );
  assert.equal((await fetch(`${mockUrl}/auth/me`, { headers })).status, 401);
  assert.deepEqual(readCookies(homeFolder), {});
  const repeatedSignOut = await chat(['--sign-out'], env);
  assert.match(repeatedSignOut.stdout, /is not signed in/);
});

test('a damaged file and a foreign server end with one line', async () => {
  const homeFolder = await createSignedInHome(mockUrl);
  writeFileSync(getCookiePath(homeFolder), '{"http://127.0.0.1:1": {"name": "a b", "value": "c"}}');
  const failedRun = await chat([QUESTION], createEnv(mockUrl, homeFolder));
  assert.equal(failedRun.status, 1);
  assert.match(
    failedRun.stderr,
    /^oselya: .*sign-ins\.json is damaged: delete it and sign in again\n$/,
  );
  const cookies = { [collector.url]: readCookies(mockHome)[mockUrl] };
  writeFileSync(getCookiePath(homeFolder), JSON.stringify(cookies));
  const foreignRun = await chat([QUESTION], createEnv(collector.url, homeFolder));
  assert.equal(foreignRun.status, 1);
  assert.match(
    foreignRun.stderr,
    /^oselya: the server at .* is not an Oselya assistant: set BASE_URL/,
  );
});

test('no browser opens if no assistant answers', async () => {
  const foreignServer = await startServer(() => ({ status: 401, body: 'a page' }));
  for (const [url, expectedMessage] of [
    [
      await findUnusedUrl(),
      /^oselya: the assistant at .* cannot be reached \(ECONNREFUSED\): .*\n$/,
    ],
    [collector.url, /^oselya: the server at .* is not an Oselya assistant: .*\n$/],
    [foreignServer.url, /^oselya: the server at .* is not an Oselya assistant: .*\n$/],
  ] as const) {
    const { status, stderr } = await chat([QUESTION], createEnv(url, await openFolder()));
    assert.equal(status, 1);
    assert.match(stderr, expectedMessage);
  }
});

test('a conversation shows help, answers, lists and opens sessions', async () => {
  const terminal = new Terminal([], mockEnv);
  await terminal.waitForOutput(/\/help lists the commands[^]*> /);
  terminal.type('/help\n');
  await terminal.waitForOutput(/\/open N/);
  terminal.type('/cancel\n/what\n/retry\n/open\n');
  await terminal.waitForOutput(
    /No answer is in progress\.[^]*There is no \/what[^]*There is no answer yet\.[^]*\/open needs a number/,
  );
  terminal.type(`${QUESTION}\n`);
  await terminal.waitForOutput(/✓ [^]*Сихів[^]*\n[^]*> $/);
  terminal.type('/retry\n');
  await terminal.waitForOutput(/The session has no incomplete answer/);
  terminal.type('/sessions\n');
  await terminal.waitForOutput(/ {2}1 {2}\d{4}-\d\d-\d\d \d\d:\d\d {2}.+, \d+ messages/);
  terminal.type('/new\n/open 1\n');
  await terminal.waitForOutput(/starts a new session[^]*Session .+\n[^]*> двокімнатна/);
  terminal.type('/quit\n');
  const { status } = await terminal.end();
  assert.equal(status, 0);
});

test('two terminals with one session show the same messages', async () => {
  const first = new Terminal([], mockEnv);
  await first.waitForOutput(/> $/);
  first.type(`${QUESTION}\n`);
  await first.waitForOutput(/Сихів[^]*\n> $/);
  const second = new Terminal([], mockEnv);
  await second.waitForOutput(/> $/);
  second.type('/open 99\n/open 1\n');
  await second.waitForOutput(
    /There is no session 99: \/sessions lists them\.[^]*> двокімнатна[^]*Сихів[^]*> $/,
  );
  second.type('недописа');
  await second.waitForOutput(/недописа$/);
  first.type('детальніше про #7\n');
  await first.waitForOutput(/детальніше про #7[^]*✓ [^]*біля парку[^]*> $/);
  // The typed text moves below the new messages.
  await second.waitForOutput(/> детальніше про #7\n… [^]*✓ [^]*біля парку[^]*> недописа$/);
  second.type(`${'\u007F'.repeat('недописа'.length)}запам’ятай, що я шукаю з балконом\n`);
  await second.waitForOutput(/Remembered: [^]*\n> $/);
  await first.waitForOutput(/> запам’ятай, що я шукаю з балконом\n[^]*Remembered: [^]*\n> $/);
  for (const terminal of [first, second]) {
    terminal.type('/quit\n');
    assert.equal((await terminal.end()).status, 0);
  }
});

const slowHome = await createSignedInHome(slowUrl);
const slowEnv = createEnv(slowUrl, slowHome);

test('Ctrl-C cancels an answer in progress; without one it leaves', async () => {
  const terminal = new Terminal([], slowEnv);
  await terminal.waitForOutput(/> $/);
  terminal.type('Що є?\n');
  await terminal.waitForOutput(/Шукаю/);
  terminal.type('І ще?\n');
  await terminal.waitForOutput(/An answer is in progress: \/cancel ends it\./);
  terminal.type('\u0003');
  await terminal.waitForOutput(/The answer was cancelled\./);
  terminal.type('/retry\n');
  await terminal.waitForOutput(/cancelled[^]*Шукаю/);
  slowModel.resolve();
  await terminal.waitForOutput(/cancelled[^]*Шукаю, знайшов\.\n/);
  slowModel = Promise.withResolvers();
  terminal.type('\u0003');
  assert.equal((await terminal.end()).status, 130);
});

test('Ctrl-C cancels the answer to a single message', { timeout: 60_000 }, async () => {
  const args = [BIN, 'chat', '--no-browser', 'Що є?'];
  const { child, output, ended } = startProcess(args, { env: slowEnv });
  await until('the answer to begin', () => output.stdout !== '' || child.exitCode !== null);
  assert.equal(output.stdout, 'Шукаю', output.stderr);
  child.kill('SIGINT');
  assert.equal((await ended).status, 130);
});

test('a failure of the model is reported', async () => {
  const { status, stdout, stderr } = await chat([REJECTED_TEXT], slowEnv);
  assert.equal(status, 1);
  assert.equal(stdout, '');
  assert.match(stderr, /^The answer failed: .+$/m);
});

/** Starts a proxy for the slow assistant, and creates a home folder of a terminal that is signed in there. */
async function startBehindProxy() {
  const proxy = await startProxy(slowUrl);
  const homeFolder = await openFolder();
  const cookies = { [proxy.url]: readCookies(slowHome)[slowUrl] };
  mkdirSync(join(homeFolder, 'oselya'));
  writeFileSync(getCookiePath(homeFolder), JSON.stringify(cookies));
  return { proxy, env: createEnv(proxy.url, homeFolder) };
}

const SILENCE_NOTICE = /The assistant has not responded for 3 s. Still waiting\.\n/;

test('a silent assistant is reported at startup, at the prompt and in an answer', async () => {
  const { proxy, env } = await startBehindProxy();
  proxy.freeze(true);
  const terminal = new Terminal([], env);
  await terminal.waitForOutput(SILENCE_NOTICE, 'stderr');
  proxy.freeze(false);
  await terminal.waitForOutput(/> $/);
  proxy.freeze(true);
  terminal.type('Що є?\n');
  await terminal.waitForOutput(SILENCE_NOTICE);
  proxy.freeze(false);
  await terminal.waitForOutput(/The assistant answers again\.[^]*Шукаю/);
  proxy.freeze(true);
  await terminal.waitForOutput(/Шукаю\nThe assistant has not responded for 3 s/);
  slowModel.resolve();
  proxy.freeze(false);
  await terminal.waitForOutput(/Шукаю\n[^]*The assistant answers again\.\n[^]*, знайшов\.\n> $/);
  slowModel = Promise.withResolvers();
  terminal.type('/quit\n');
  assert.equal((await terminal.end()).status, 0);
});

test('an answer continues after a lost connection without repetition', async () => {
  const { proxy, env } = await startBehindProxy();
  const terminal = new Terminal(['Що є?'], env, '');
  await terminal.waitForOutput(/Шукаю/);
  proxy.cut();
  await terminal.waitForOutput(
    /The connection was lost: the network broke or the assistant is unavailable\. Reconnecting in 1 s\.\nReconnected\.\n/,
    'stderr',
  );
  slowModel.resolve();
  const { status, stdout } = await terminal.end();
  slowModel = Promise.withResolvers();
  assert.equal(status, 0);
  assert.equal(stdout, 'Шукаю, знайшов.\n');
});

test('a chat of a signed-out user ends with advice, with or without an answer in progress', async () => {
  const homeFolder = await createSignedInHome(slowUrl);
  const idleTerminal = new Terminal([], createEnv(slowUrl, homeFolder));
  await idleTerminal.waitForOutput(/> $/);
  const terminal = new Terminal(['Що є?'], createEnv(slowUrl, homeFolder), '');
  await terminal.waitForOutput(/Шукаю/);
  const headers = readHeaders(homeFolder, slowUrl);
  await fetch(`${slowUrl}/auth/logout`, { method: 'POST', headers });
  for (const { status, stderr } of [await terminal.end(), await idleTerminal.end()]) {
    assert.equal(status, 1);
    assert.match(stderr, /^oselya: the sign-in has ended: run the command again to sign in$/m);
  }
});
