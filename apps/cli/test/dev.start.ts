import assert from 'node:assert/strict';
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, readdir, readFile, rm, stat } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join, relative } from 'node:path';
import { after, test } from 'node:test';
import { Browser, findFreePort, until } from '@oselya/testing';
import { fillDataFolder } from '@oselya/testing/database';

// Tests the first steps of a new user: `npm start` in the checkout.

const ROOT = join(import.meta.dirname, '../../..');
const BIN = 'apps/cli/bin/oselya.js';

const dataDir = await mkdtemp(join(tmpdir(), 'oselya-start-'));
const homeFolder = await mkdtemp(join(tmpdir(), 'oselya-home-'));
const temporary = await mkdtemp(join(tmpdir(), 'oselya-temporary-'));
const ports = await Promise.all([findFreePort(), findFreePort(), findFreePort()]);
const [assistantUrl, collectorUrl, idpUrl] = ports.map((port) => `http://127.0.0.1:${port}`);
const env = {
  ...process.env,
  HOME: homeFolder,
  TMPDIR: temporary,
  NODE_COMPILE_CACHE: '',
  XDG_CONFIG_HOME: '',
  DATA_DIR: dataDir,
  ASSISTANT_PORT: String(ports[0]),
  COLLECTOR_PORT: String(ports[1]),
  DEV_IDP_PORT: String(ports[2]),
  // A short lifetime makes the tests refresh their tokens.
  DEV_IDP_ACCESS_TOKEN_SECONDS: '2',
  DEV_IDP_REFRESH_TOKEN_SECONDS: '3600',
  LOG_LEVEL: 'warn',
  NODE_TEST_CONTEXT: '',
};
const processes: ChildProcess[] = [];
after(async () => {
  for (const child of processes) kill(child, 'SIGKILL');
  for (const folder of [dataDir, homeFolder, temporary]) {
    await rm(folder, { recursive: true, force: true });
  }
});

let running: StartedProcess;

test('the first start creates secrets, loads the samples and prints a summary', async () => {
  running = run(NPM_START);
  const { output } = running;
  await waitFor(running, 'something is said', () => output() !== '');
  assert.match(output(), /^Oselya is starting; .*Ctrl-C stops it\.\n$/);
  await waitUntilReady(running);
  for (const address of [assistantUrl, collectorUrl, idpUrl]) {
    assert.ok(output().includes(String(address)), `the summary lacks ${address}`);
  }
  assert.match(output(), /olena@example\.test .*user/);
  assert.match(output(), /taras@example\.test .*admin/);
  assert.ok(output().includes(`change their roles or log everybody out at ${idpUrl}\n`));
  assert.equal((await stat(join(dataDir, 'secrets.json'))).mode & 0o777, 0o600);
  await until('the samples are processed', () =>
    output().includes('sample listings are processed'),
  );
  assert.match(output(), /(\d{2,}) completed, 3 no listing, 0 failed/);
});

test('every command of the summary works as printed', async () => {
  const commands = getSuggestions().filter(
    (line) => /^(\w+=\S+ )?npx /.test(line) && !isChatCommand(line),
  );
  assert.equal(commands.length, 3);
  for (const command of commands) {
    // The terminal of a new user does not have the variables of this process.
    const child = spawn('sh', ['-c', command], { cwd: ROOT, env: process.env });
    const text = await readOutput(child);
    assert.equal(child.exitCode, 0, `${command}: ${text}`);
    if (command.includes(' search ')) assert.match(text, /^#\d+ .+\n.*Львів/m, command);
    if (command.includes('--similar')) assert.match(text, /distance 0\.\d+\n[^]*the 3 nearest/);
  }
});

test('the chat command of the summary signs in with the browser and answers', async () => {
  const [command, ...otherCommands] = getSuggestions().filter(isChatCommand);
  assert.deepEqual(otherCommands, []);
  const chatProcess = run(['sh', '-c', `${command} --no-browser`]);
  const address = /http:\S+\/auth\/terminal\?\S+/;
  await waitFor(chatProcess, 'it says where to sign in', () => address.test(chatProcess.errors()));
  const browser = new Browser();
  const picker = await browser.open(String(address.exec(chatProcess.errors())));
  const page = await browser.open(picker.url, { account: 'u-olena' });
  const [, confirm = ''] = /action="(\/auth\/terminal\/confirm[^"]*)"/.exec(page.body) ?? [];
  await browser.open(assistantUrl + confirm, {});
  assert.equal(await chatProcess.ended, 0, chatProcess.errors());
  assert.match(chatProcess.errors(), /Signed in as olena@example\.test\./);
  assert.match(chatProcess.output(), /Львів/);
});

test('the chat reports a stopped platform and continues with it', async () => {
  const command = getSuggestions().find(isChatCommand);
  kill(running.child, 'SIGSTOP');
  const chatProcess = run(['sh', '-c', String(command)]);
  await waitFor(chatProcess, 'it says so', () =>
    chatProcess.errors().includes('has not answered for 3 s'),
  );
  kill(running.child, 'SIGCONT');
  assert.equal(await chatProcess.ended, 0, chatProcess.errors());
  assert.match(chatProcess.output(), /Львів/);
});

test('every address of the summary answers', async () => {
  const addresses = running.output().match(/http:\/\/\S+/g) ?? [];
  const plain = getSuggestions().filter((line) => line.startsWith('http://'));
  assert.equal(plain.length, 3);
  for (const address of new Set([...addresses, ...plain])) {
    const answer = await new Browser().open(address);
    assert.equal(answer.status, 200, address);
    const text = answer.body;
    if (address.includes('/raw/')) assert.equal(JSON.parse(text).stages.length, 8);
    if (address.endsWith('/history')) assert.ok(JSON.parse(text).length > 1, text);
    if (address.endsWith('/health')) assert.equal(JSON.parse(text).status, 'ok');
  }
});

test('a user signs in and out', async () => {
  const browser = new Browser();
  await signIn(browser);
  const me = await browser.get(`${assistantUrl}/auth/me`);
  assert.equal(me.status, 200);
  const { email, role } = await parseJson(me);
  assert.deepEqual({ email, role }, { email: 'olena@example.test', role: 'user' });
  const logout = await browser.post(`${assistantUrl}/auth/logout`);
  assert.deepEqual(await parseJson(logout), { ok: true });
  assert.equal((await browser.get(`${assistantUrl}/auth/me`)).status, 401);
});

test('a user blocked at the provider is signed out at once', async () => {
  const browser = new Browser();
  await signIn(browser);
  const me = () => browser.get(`${assistantUrl}/auth/me`);
  assert.equal((await me()).status, 200);

  const blocked = await submitControlForm('block', { account: 'u-olena' });
  assert.match(blocked, /Olena Koval is blocked.*user\.blocked delivered: answered 200/);
  assert.equal((await me()).status, 401);
  const unblockResponse = await submitControlForm('unblock', { account: 'u-olena' });
  assert.match(unblockResponse, /can sign in again.*user\.unblocked delivered: answered 200/);
  assert.equal((await me()).status, 401);
  await signIn(browser);

  const promoted = await submitControlForm('access', { account: 'u-olena', role: 'svc_admin' });
  assert.match(promoted, /client\.roles_changed delivered.*client\.permissions_changed delivered/);
  const { role, permissions } = await parseJson(await me());
  assert.deepEqual({ role, permissions }, { role: 'admin', permissions: [] });

  const over = await submitControlForm('log-out-everybody', {});
  assert.match(over, /Everybody is logged out.*auth\.global_logout delivered: answered 200/);
  assert.equal((await me()).status, 401);
});

let rawId: number;

test('a sent listing is processed and found', async () => {
  const answer = await post('/api/v1/ingest', {
    source_slug: 'start-test',
    external_id: 'one',
    description: 'Здам затишний мезонін у Чернівцях, 2 кімнати, 48 м², 9500 грн на місяць.',
  });
  assert.equal(answer.status, 202);
  rawId = (await parseJson(answer))['raw_id'] as number;
  await until('it is completed', async () => (await fetchRawRecord())['status'] === 'completed');
  const searchResponse = await post('/api/v1/search/fulltext', { query: 'мезонін' });
  const { items } = (await parseJson(searchResponse)) as {
    items: { listing: Record<string, unknown> }[];
  };
  assert.equal(items.length, 1);
  assert.equal(items[0]?.listing['price'], 9500);
  assert.equal(items[0]?.listing['city'], 'Чернівці');
});

test('a second start in the same folder fails with one line', async () => {
  const other = await Promise.all([findFreePort(), findFreePort(), findFreePort()]);
  const { code, errors } = await runUntilEnd({
    ASSISTANT_PORT: String(other[0]),
    COLLECTOR_PORT: String(other[1]),
    DEV_IDP_PORT: String(other[2]),
  });
  assert.equal(code, 1);
  assert.match(
    errors,
    /^oselya: The data folder .* is in use by another Oselya process \(process \d+\): .*DATA_DIR/,
  );
  assert.equal(errors.trim().split('\n').length, 1);
});

test('a busy port fails with one line', async () => {
  const folder = await mkdtemp(join(tmpdir(), 'oselya-busy-'));
  await fillDataFolder(folder);
  try {
    const { code, errors } = await runUntilEnd({ DATA_DIR: folder });
    assert.equal(code, 1);
    assert.match(errors, /^oselya: Port \d+ on 127\.0\.0\.1 is in use: .*_PORT/);
    assert.equal(errors.trim().split('\n').length, 1);
  } finally {
    await rm(folder, { recursive: true });
  }
});

test('confirmed data survives SIGKILL, and samples are loaded once', async () => {
  const browser = new Browser();
  await signIn(browser);
  const answers = await Promise.all(
    Array.from({ length: 20 }, (_, index) =>
      post('/api/v1/ingest', {
        source_slug: 'kill-test',
        external_id: `k-${index}`,
        description: `Продам квартиру номер ${index} у Харкові, 2 кімнати, 45000 доларів.`,
      }),
    ),
  );
  const accepted = await Promise.all(answers.map(parseJson));
  kill(running.child, 'SIGKILL');
  await running.ended;

  running = await start();
  assert.doesNotMatch(running.output(), /sample listings/);
  assert.equal((await browser.get(`${assistantUrl}/auth/me`)).status, 200);
  for (const { raw_id } of accepted) {
    await until(`raw ${String(raw_id)} is completed`, async () => {
      const answer = await fetch(`${collectorUrl}/api/v1/raw/${String(raw_id)}`);
      return (await parseJson(answer))['status'] === 'completed';
    });
  }
});

test('Ctrl-C stops it, and it starts again at once', async () => {
  // After its child ends, npm ends with the same signal.
  kill(running.child, 'SIGINT');
  await running.ended;
  assert.equal(running.errors(), '');
  assert.match(running.output(), /\nOselya is stopping; Ctrl-C again ends it at once\.\n$/);
  await assert.rejects(fetch(`${collectorUrl}/health`));

  running = await start([process.execPath, BIN, 'dev']);
  kill(running.child, 'SIGINT');
  assert.equal(await running.ended, 0);
  assert.equal(running.errors(), '');
});

test('Ctrl-C stops it while samples are sent or wait', async () => {
  const folder = await mkdtemp(join(tmpdir(), 'oselya-stopped-'));
  await fillDataFolder(folder);
  try {
    const startedProcess = run([process.execPath, BIN, 'dev'], { DATA_DIR: folder });
    await waitFor(startedProcess, 'the first samples are sent', async () => {
      const answer = await fetch(`${collectorUrl}/api/v1/raw/1`).catch(() => undefined);
      return answer?.status === 200;
    });
    kill(startedProcess.child, 'SIGINT');
    assert.equal(await startedProcess.ended, 0);
    assert.equal(startedProcess.errors(), '');

    const limitedEnv = { DATA_DIR: folder, COLLECTOR_INGEST_PER_MINUTE: '5' };
    const delayedProcess = run([process.execPath, BIN, 'dev'], limitedEnv);
    await waitFor(delayedProcess, 'the limit is told', () =>
      delayedProcess.output().includes('No more than 5'),
    );
    assert.match(
      delayedProcess.output(),
      /Oselya is ready[^]* are still being sent[^]* 429: No more than 5/,
    );
    kill(delayedProcess.child, 'SIGINT');
    assert.equal(await delayedProcess.ended, 0);
    assert.equal(delayedProcess.errors(), '');
  } finally {
    await rm(folder, { recursive: true });
  }
});

test('with COLLECTOR_AUTH=required the samples use a key that is revoked at the end', async () => {
  const folder = await mkdtemp(join(tmpdir(), 'oselya-keys-'));
  await fillDataFolder(folder);
  const more = { DATA_DIR: folder, COLLECTOR_AUTH: 'required' };
  try {
    const startedProcess = run([process.execPath, BIN, 'dev'], more);
    await waitFor(startedProcess, 'the samples are processed', () =>
      startedProcess.output().includes('sample listings are processed'),
    );
    assert.match(startedProcess.output(), /\d{2,} completed, 3 no listing, 0 failed/);
    assert.match(
      startedProcess.output(),
      /DATA_DIR='.*' npx oselya api-key create NAME[\s\S]*COLLECTOR_API_KEY/,
    );
    const rejectedResponse = await fetch(`${collectorUrl}/api/v1/raw/1`);
    assert.equal(rejectedResponse.status, 401);
    kill(startedProcess.child, 'SIGINT');
    assert.equal(await startedProcess.ended, 0);
    assert.equal(startedProcess.errors(), '');

    const list = run([process.execPath, BIN, 'api-key', 'list'], more);
    assert.equal(await list.ended, 0);
    assert.match(list.output(), /^\w+\toselya dev, assistant\t.*\trevoked .*$/m);
    assert.match(list.output(), /^\w+\toselya dev, sample listings\t.*\trevoked .*$/m);
  } finally {
    await rm(folder, { recursive: true });
  }
});

test('Oselya writes outside of the clone only where the README says', async () => {
  const readme = await readFile(join(ROOT, 'README.md'), 'utf8');
  const [, folderSentence = ''] = /Other commands keep small files ([^]*?)\n\n/.exec(readme) ?? [];
  const documentedPaths = Array.from(
    folderSentence.matchAll(/`(?:~\/)?([\w./-]+)`/g),
    ([, documentedPath = '']) => documentedPath,
  );
  const createdFiles = [...(await listFiles(homeFolder)), ...(await listFiles(temporary))];
  const undocumentedFiles = createdFiles.filter(
    (path) => !documentedPaths.some((documentedPath) => path.startsWith(`${documentedPath}/`)),
  );
  assert.deepEqual(undocumentedFiles, []);
  for (const documentedPath of ['.config/oselya', 'node-compile-cache']) {
    assert.ok(
      createdFiles.some((path) => path.startsWith(`${documentedPath}/`)),
      documentedPath,
    );
  }
});

/** Lists all files below a folder by their relative paths. */
async function listFiles(folder: string): Promise<string[]> {
  const entries = await readdir(folder, { recursive: true, withFileTypes: true });
  return entries
    .filter((entry) => entry.isFile())
    .map((entry) => relative(folder, join(entry.parentPath, entry.name)));
}

type StartedProcess = {
  child: ChildProcess;
  output: () => string;
  errors: () => string;
  ended: Promise<number | null>;
};

const NPM_START = ['npm', 'start', '--silent'];

function run([command = '', ...args]: string[], more: Record<string, string> = {}): StartedProcess {
  // In a process group, a signal also reaches npm's children, like Ctrl-C in a terminal.
  const child = spawn(command, args, {
    cwd: ROOT,
    env: { ...env, ...more },
    detached: true,
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  processes.push(child);
  let output = '';
  let errors = '';
  child.stdout.on('data', (chunk: Buffer) => (output += chunk.toString()));
  child.stderr.on('data', (chunk: Buffer) => (errors += chunk.toString()));
  const ended = once(child, 'close').then(([code]) => code as number | null);
  return { child, output: () => output, errors: () => errors, ended };
}

async function start(command = NPM_START): Promise<StartedProcess> {
  const startedProcess = run(command);
  await waitUntilReady(startedProcess);
  return startedProcess;
}

function waitUntilReady(startedProcess: StartedProcess): Promise<void> {
  return waitFor(startedProcess, 'the summary is printed', () =>
    startedProcess.output().includes('Oselya is ready'),
  );
}

/** Waits like `until`. Fails if the process ends. */
async function waitFor(
  { child, errors }: StartedProcess,
  description: string,
  holds: () => boolean | Promise<boolean>,
): Promise<void> {
  await until(description, () => {
    if (child.exitCode !== null) throw new Error(`It ended: ${errors()}`);
    return holds();
  });
}

async function runUntilEnd(
  more: Record<string, string>,
): Promise<{ code: number | null; errors: string }> {
  const startedProcess = run(NPM_START, more);
  return { code: await startedProcess.ended, errors: startedProcess.errors() };
}

function kill(child: ChildProcess, signal: NodeJS.Signals): void {
  if (child.pid === undefined) return;
  try {
    process.kill(-child.pid, signal);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ESRCH') throw error;
  }
}

async function readOutput(child: ChildProcess): Promise<string> {
  let text = '';
  child.stdout?.on('data', (chunk: Buffer) => (text += chunk.toString()));
  child.stderr?.on('data', (chunk: Buffer) => (text += chunk.toString()));
  await once(child, 'close');
  return text;
}

const isChatCommand = (line: string) => line.startsWith('npx oselya chat ');

/** Returns the suggestions of the summary. */
function getSuggestions(): string[] {
  const [, lines = ''] = running.output().split('Try next:\n');
  const [block = ''] = lines.split('\n\n');
  return block.split('\n').map((line) => line.trim());
}

/** Signs Olena in through the assistant and the page of the provider. */
async function signIn(browser: Browser): Promise<void> {
  const picker = await browser.open(`${assistantUrl}/auth/login`);
  assert.match(picker.body, /Olena Koval/);
  const page = await browser.open(picker.url, { account: 'u-olena' });
  assert.equal(page.url.href, `${assistantUrl}/`);
}

/** Sends a form of the control page. Returns the page's notice. */
async function submitControlForm(name: string, form: Record<string, string>): Promise<string> {
  const page = await new Browser().open(`${idpUrl}/control/${name}`, form);
  assert.equal(page.status, 200);
  const [, notice = ''] = page.body.split('role="status"');
  return notice
    .slice(0, notice.indexOf('</div>'))
    .replaceAll(/<[^>]*>/g, ' ')
    .replaceAll(/\s+/g, ' ');
}

function post(path: string, body: unknown): Promise<Response> {
  return fetch(`${collectorUrl}${path}`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify(body),
  });
}

async function parseJson(answer: Response): Promise<Record<string, unknown>> {
  return (await answer.json()) as Record<string, unknown>;
}

async function fetchRawRecord(): Promise<Record<string, unknown>> {
  return parseJson(await fetch(`${collectorUrl}/api/v1/raw/${rawId}`));
}
