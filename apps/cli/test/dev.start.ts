import assert from 'node:assert/strict';
import { type ChildProcess, exec, spawn } from 'node:child_process';
import { once } from 'node:events';
import { readdir, readFile, stat } from 'node:fs/promises';
import { join, relative } from 'node:path';
import { test } from 'node:test';
import { promisify } from 'node:util';
import { Browser, deferCleanup, findFreePort, openFolder, until } from '@oselya/testing';
import { fillDataFolder } from '@oselya/testing/database';

// Tests the first steps of a new user: `npm start` in the checkout.

const ROOT = join(import.meta.dirname, '../../..');
const BIN = 'apps/cli/bin/oselya.js';

const [dataDir, homeFolder, temporaryFolder] = [
  await openFolder(),
  await openFolder(),
  await openFolder(),
];
const ports = await Promise.all([findFreePort(), findFreePort(), findFreePort()]);
const [assistantUrl, collectorUrl, idpUrl] = ports.map((port) => `http://127.0.0.1:${port}`);
const env = {
  ...process.env,
  HOME: homeFolder,
  TMPDIR: temporaryFolder,
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
deferCleanup(() => {
  for (const child of processes) kill(child, 'SIGKILL');
});

let runningProcess: StartedProcess;

test('the first start creates secrets, loads the samples and prints a summary', async () => {
  runningProcess = run(NPM_START);
  const { output } = runningProcess;
  await waitFor(runningProcess, 'the first line', () => output() !== '');
  assert.match(output(), /^Oselya is starting; .*Ctrl-C stops it\.\n$/);
  await waitForOutput(runningProcess, 'Oselya is ready');
  for (const address of [assistantUrl, collectorUrl, idpUrl]) {
    assert.ok(output().includes(String(address)), `the summary lacks ${address}`);
  }
  assert.match(output(), /olena@example\.test .*user/);
  assert.match(output(), /taras@example\.test .*admin/);
  assert.ok(output().includes(`change their roles or log everybody out at ${idpUrl}\n`));
  assert.equal((await stat(join(dataDir, 'secrets.json'))).mode & 0o777, 0o600);
  await waitForOutput(runningProcess, 'sample listings are processed');
  assert.match(output(), /(\d{2,}) completed, 3 no listing, 0 failed/);
});

test('every command of the summary works as printed', async () => {
  const commands = getSuggestions().filter(
    (line) => /^(\w+=\S+ )?npx /.test(line) && !isChatCommand(line),
  );
  assert.equal(commands.length, 3);
  for (const command of commands) {
    // The command runs without `env`, as in the terminal of a new user.
    const { stdout: text } = await promisify(exec)(command, { cwd: ROOT });
    if (command.includes(' search ')) assert.match(text, /^#\d+ .+\n.*Львів/m, command);
    if (command.includes('--mode meaning'))
      assert.match(text, /distance 0\.\d+\n[^]*the 3 nearest/);
  }
});

test('the chat command of the summary signs in with the browser and answers', async () => {
  const command = getSuggestions().find(isChatCommand);
  const chatProcess = run(['sh', '-c', `${command} --no-browser`]);
  const address = /http:\S+\/auth\/terminal\?\S+/;
  await waitFor(chatProcess, 'the sign-in address', () => address.test(chatProcess.errors()));
  const browser = new Browser();
  const picker = await browser.open(String(address.exec(chatProcess.errors())));
  const page = await browser.open(picker.url, { account: 'u-olena' });
  const [, confirm = ''] = /action="(\/auth\/terminal\/confirm[^"]*)"/.exec(page.body) ?? [];
  await browser.open(assistantUrl + confirm, {});
  assert.equal(await chatProcess.ended, 0, chatProcess.errors());
  assert.match(chatProcess.errors(), /Signed in as olena@example\.test\./);
  assert.match(chatProcess.output(), /Львів/);
});

test('every address of the summary answers', async () => {
  const addresses = runningProcess.output().match(/http:\/\/\S+/g) ?? [];
  assert.equal(getSuggestions().filter((line) => line.startsWith('http://')).length, 3);
  for (const address of new Set(addresses)) {
    const response = await new Browser().open(address);
    assert.equal(response.status, 200, address);
    const text = response.body;
    if (address.includes('/raw/')) assert.equal(JSON.parse(text).stages.length, 8);
    if (address.endsWith('/history')) assert.ok(JSON.parse(text).length > 1, text);
    if (address.endsWith('/health')) assert.equal(JSON.parse(text).status, 'ok');
  }
});

test('a user blocked at the provider is signed out', async () => {
  const browser = new Browser();
  await signIn(browser);
  const me = () => browser.get(`${assistantUrl}/auth/me`);
  assert.equal((await me()).status, 200);

  const blockNotice = await submitControlForm('block', { account: 'u-olena' });
  assert.match(
    blockNotice,
    /Olena Koval is blocked.*user\.blocked delivered: responded with status 200/,
  );
  assert.equal((await me()).status, 401);
  const unblockNotice = await submitControlForm('unblock', { account: 'u-olena' });
  assert.match(
    unblockNotice,
    /can sign in again.*user\.unblocked delivered: responded with status 200/,
  );
  assert.equal((await me()).status, 401);
  await signIn(browser);

  const accessNotice = await submitControlForm('access', { account: 'u-olena', role: 'svc_admin' });
  assert.match(
    accessNotice,
    /client\.roles_changed delivered.*client\.permissions_changed delivered/,
  );
  const { role, permissions } = await parseJson(await me());
  assert.deepEqual({ role, permissions }, { role: 'admin', permissions: [] });

  const logOutNotice = await submitControlForm('log-out-everybody', {});
  assert.match(
    logOutNotice,
    /Everybody is logged out.*auth\.global_logout delivered: responded with status 200/,
  );
  assert.equal((await me()).status, 401);
});

test('a second start in the same folder fails with one line', async () => {
  const otherPorts = await Promise.all([findFreePort(), findFreePort(), findFreePort()]);
  const [ASSISTANT_PORT = '', COLLECTOR_PORT = '', DEV_IDP_PORT = ''] = otherPorts.map(String);
  const rejectedStart = run(NPM_START, { ASSISTANT_PORT, COLLECTOR_PORT, DEV_IDP_PORT });
  assert.equal(await rejectedStart.ended, 1);
  assert.match(
    rejectedStart.errors(),
    /^oselya: The data folder .* is in use by another Oselya process \(process \d+\): .*DATA_DIR.*\n$/,
  );
});

test('a busy port fails with one line', async () => {
  const rejectedStart = run(NPM_START, { DATA_DIR: await createDataFolder() });
  assert.equal(await rejectedStart.ended, 1);
  assert.match(rejectedStart.errors(), /^oselya: Port \d+ on 127\.0\.0\.1 is in use: .*_PORT.*\n$/);
});

test('confirmed data survives SIGKILL, and samples are loaded once', async () => {
  const browser = new Browser();
  await signIn(browser);
  const acceptedPayloads = await Promise.all(
    Array.from({ length: 20 }, (_, index) =>
      ingest(`k-${index}`, `Продам квартиру номер ${index} у Харкові, 2 кімнати, 45000 доларів.`),
    ),
  );
  kill(runningProcess.child, 'SIGKILL');
  await runningProcess.ended;

  runningProcess = await start();
  assert.doesNotMatch(runningProcess.output(), /sample listings/);
  assert.equal((await browser.get(`${assistantUrl}/auth/me`)).status, 200);
  for (const { raw_id: rawId } of acceptedPayloads) await waitUntilCompleted(rawId);
});

test('Ctrl-C stops it, and it starts again', async () => {
  // npm ends with the signal of its child, so it has no exit status to check.
  kill(runningProcess.child, 'SIGINT');
  await runningProcess.ended;
  assert.equal(runningProcess.errors(), '');
  assert.match(
    runningProcess.output(),
    /\nOselya is stopping; Ctrl-C again ends it immediately\.\n$/,
  );
  await assert.rejects(fetch(`${collectorUrl}/health`));

  runningProcess = await start(DEV);
  await interrupt(runningProcess);
});

test('Ctrl-C stops it while samples are sent or wait', async () => {
  const DATA_DIR = await createDataFolder();
  const startedProcess = run(DEV, { DATA_DIR });
  await waitFor(startedProcess, 'the first samples', async () => {
    const response = await fetch(`${collectorUrl}/api/v1/raw/1`).catch(() => undefined);
    return response?.status === 200;
  });
  await interrupt(startedProcess);

  const delayedProcess = run(DEV, { DATA_DIR, COLLECTOR_INGEST_PER_MINUTE: '5' });
  await waitForOutput(delayedProcess, 'No more than 5');
  assert.match(
    delayedProcess.output(),
    /Oselya is ready[^]* are still being sent[^]* 429: No more than 5/,
  );
  await interrupt(delayedProcess);
});

test('with COLLECTOR_AUTH=required the samples use a key that is revoked at the end', async () => {
  const keyEnv = { DATA_DIR: await createDataFolder(), COLLECTOR_AUTH: 'required' };
  const startedProcess = run(DEV, keyEnv);
  await waitForOutput(startedProcess, 'sample listings are processed');
  assert.match(startedProcess.output(), /\d{2,} completed, 3 no listing, 0 failed/);
  assert.match(
    startedProcess.output(),
    /DATA_DIR='.*' npx oselya api-key create NAME[\s\S]*COLLECTOR_API_KEY/,
  );
  assert.equal((await fetch(`${collectorUrl}/api/v1/raw/1`)).status, 401);
  await interrupt(startedProcess);

  const keyList = run([process.execPath, BIN, 'api-key', 'list'], keyEnv);
  assert.equal(await keyList.ended, 0);
  assert.match(keyList.output(), /^\w+\toselya dev, assistant\t.*\trevoked .*$/m);
  assert.match(keyList.output(), /^\w+\toselya dev, sample listings\t.*\trevoked .*$/m);
});

test('Oselya writes outside of the clone only where the README says', async () => {
  const readme = await readFile(join(ROOT, 'README.md'), 'utf8');
  const [, folderSentence = ''] = /Other commands keep small files ([^]*?)\n\n/.exec(readme) ?? [];
  const documentedPaths = Array.from(
    folderSentence.matchAll(/`(?:~\/)?([\w./-]+)`/g),
    ([, documentedPath = '']) => documentedPath,
  );
  const createdFiles = [...(await listFiles(homeFolder)), ...(await listFiles(temporaryFolder))];
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
const DEV = [process.execPath, BIN, 'dev'];

function run(
  [command = '', ...args]: string[],
  overrides: Record<string, string> = {},
): StartedProcess {
  // In a process group, a signal also reaches npm's children, like Ctrl-C in a terminal.
  const child = spawn(command, args, {
    cwd: ROOT,
    env: { ...env, ...overrides },
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
  await waitForOutput(startedProcess, 'Oselya is ready');
  return startedProcess;
}

/** Waits until standard output or standard error contains a text. */
const waitForOutput = (startedProcess: StartedProcess, text: string) =>
  waitFor(startedProcess, text, () => {
    return startedProcess.output().includes(text) || startedProcess.errors().includes(text);
  });

/** Waits like `until`, but fails if the process ends. */
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

/** Stops a process with Ctrl-C. Fails if it reports an error. */
async function interrupt({ child, ended, errors }: StartedProcess): Promise<void> {
  kill(child, 'SIGINT');
  assert.equal(await ended, 0);
  assert.equal(errors(), '');
}

function kill(child: ChildProcess, signal: NodeJS.Signals): void {
  if (child.pid === undefined) return;
  try {
    process.kill(-child.pid, signal);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ESRCH') throw error;
  }
}

/** Creates a folder with an empty database. */
async function createDataFolder(): Promise<string> {
  const folder = await openFolder();
  await fillDataFolder(folder);
  return folder;
}

const isChatCommand = (line: string) => line.startsWith('npx oselya chat ');

/** Returns the suggestions of the summary. */
function getSuggestions(): string[] {
  const [, lines = ''] = runningProcess.output().split('Try next:\n');
  const [block = ''] = lines.split('\n\n');
  return block.split('\n').map((line) => line.trim());
}

/** Signs Olena in through the assistant and the provider's page. */
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

async function ingest(id: string, description: string): Promise<{ raw_id: number }> {
  const payload = { source_slug: 'start-test', external_id: id, description };
  const response = await post('/api/v1/ingest', payload);
  assert.equal(response.status, 202);
  return (await response.json()) as { raw_id: number };
}

async function waitUntilCompleted(rawId: number): Promise<void> {
  await until(`payload ${rawId}`, async () => {
    const response = await fetch(`${collectorUrl}/api/v1/raw/${rawId}`);
    return (await parseJson(response))['status'] === 'completed';
  });
}

async function parseJson(response: Response): Promise<Record<string, unknown>> {
  return (await response.json()) as Record<string, unknown>;
}
