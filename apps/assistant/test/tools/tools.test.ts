import assert from 'node:assert/strict';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { Type } from 'typebox';
import type { User } from '../../src/access/permissions.ts';
import { problem } from '../../src/errors.ts';
import { type Files, TEXT_TYPE } from '../../src/files/files.ts';
import { lookupEndpoint } from '../../src/conversations/tools/lookup-endpoint.ts';
import { readFile } from '../../src/conversations/tools/read-file.ts';
import {
  defineTool,
  type DefinedTool,
  type ToolContext,
  ToolError,
  type ToolOutput,
  type ToolServices,
} from '../../src/conversations/tools/tool.ts';
import {
  createToolBox,
  PROFILE_TOOLS,
  toolLimits,
  TOOLS,
  toolsOf,
} from '../../src/conversations/tools/tools.ts';
import { userOf } from '../helpers/people.ts';

const USER = userOf('u-olena', ['svc.tools.use']);
const { signal: unaborted } = new AbortController();
const services = {} as ToolServices;
const noteChange = () => Promise.resolve();
const never = new Promise<never>(() => undefined);
const done = () => Promise.resolve({ data: 1, summary: '' });

const boxOf = (
  tools: readonly DefinedTool[],
  { limits = toolLimits, currentUser = () => Promise.resolve(USER) } = {},
) =>
  createToolBox({
    tools,
    services,
    sessionId: 's',
    currentUser,
    log: { warn: () => undefined },
    limits,
  });

/** Runs a tool that does what a test needs. */
function run(
  work: (context: ToolContext) => Promise<ToolOutput>,
  {
    signal = unaborted,
    outputBytes = Infinity,
    ...options
  }: {
    limits?: typeof toolLimits;
    signal?: AbortSignal;
    currentUser?: () => Promise<User>;
    outputBytes?: number;
  } = {},
) {
  const tool = defineTool({
    name: 'look',
    description: 'A test.',
    input: Type.Object({}, { additionalProperties: false }),
    isData: true,
    title: () => 'Testing',
    run: (_input, context) => work(context),
  });
  const call = { id: '1', name: tool.name, input: {} };
  const context = { hasReadData: false, signal, noteChange, outputBytes };
  return boxOf([tool], options).run(call, context);
}

const names = (tools: readonly DefinedTool[]) => tools.map(({ name }) => name);
const failing = () => Promise.reject(new ToolError('no '.repeat(500)));

/** Waits until the signal is aborted. */
async function hang({ signal }: ToolContext): Promise<ToolOutput> {
  await sleep(60_000, undefined, { signal });
  return { data: 'too late', summary: 'too late' };
}

test('sessions with files have read_file, whatever the profile lists', () => {
  const profile = { tools: ['get_listing', 'none'] };
  assert.deepEqual(names(toolsOf(profile, { hasFiles: false })), ['get_listing']);
  assert.deepEqual(names(toolsOf(profile, { hasFiles: true })), ['get_listing', 'read_file']);
  assert.deepEqual([...PROFILE_TOOLS, 'read_file'], names(TOOLS));
});

test('inputs are validated, and null stands for an omitted key', async () => {
  const inputs: unknown[] = [];
  const tool = defineTool({
    name: 'look',
    description: 'A test.',
    input: Type.Object(
      { query: Type.String({ maxLength: 5 }), limit: Type.Optional(Type.Integer({ maximum: 10 })) },
      { additionalProperties: false },
    ),
    isData: true,
    title: ({ limit = 'all' }) => `Testing ${limit}`,
    run: (input) => {
      inputs.push(input);
      return done();
    },
  });
  const box = boxOf([tool]);
  const context = { hasReadData: false, signal: unaborted, noteChange, outputBytes: 500 };
  const call = (input: object, name = tool.name) => ({ id: '1', name, input });
  assert.equal((await box.run(call({ query: 'flat', limit: null }), context)).status, 'done');
  assert.deepEqual(inputs, [{ query: 'flat' }]);
  assert.equal(box.title(call({ query: 'flat', limit: null })), 'Testing all');
  for (const input of [{ query: null }, { query: 'too long' }, { query: '', limit: 11 }]) {
    assert.match((await box.run(call(input), context)).summary, /its input is not valid/);
  }
  const invented = call({}, `${'x'.repeat(59)}🏠`);
  assert.equal(box.title(invented), 'x'.repeat(59));
  const { summary } = await box.run(invented, context);
  assert.equal(summary, `there is no tool ${'x'.repeat(59)} here`);
});

test('a tool that exceeds its time fails, even if it ignores the signal', async () => {
  const limits = { ...toolLimits, ms: 50 };
  for (const running of [
    run(hang, { limits }),
    run(() => never, { limits }),
    run(hang, { limits, currentUser: () => never }),
  ]) {
    const { status, output, kept, summary, isData } = await running;
    assert.deepEqual([status, summary, isData], ['failed', 'it took longer than 0.05 s', false]);
    assert.deepEqual(JSON.parse(output), { error: summary });
    assert.equal(kept, output);
  }
});

test('the end of the answer ends its tool with the reason', async () => {
  const stopping = new AbortController();
  const { signal } = stopping;
  const started = Promise.withResolvers<AbortSignal>();
  const running = run(
    (context) => {
      started.resolve(context.signal);
      return hang(context);
    },
    { signal },
  );
  const ignoring = run(() => never, { signal });
  const own = await started.promise;
  stopping.abort('cancelled');
  assert.equal(own.aborted, true);
  for (const ended of [running, ignoring, run(() => never, { signal })]) {
    await assert.rejects(ended, (reason) => reason === 'cancelled');
  }
});

test('outputs are cut to their limit, with a note', async () => {
  const limits = { ...toolLimits, outputBytes: 100 };
  const whole = 'ж'.repeat(49);
  const fitting = await run(() => Promise.resolve({ data: whole, summary: '' }), { limits });
  assert.equal(fitting.output, JSON.stringify(whole));

  const long = 'ж'.repeat(1000);
  const output = { data: long, kept: `${long}${long}`, summary: '' };
  const result = await run(() => Promise.resolve(output), { limits });
  for (const [text, bytes] of [
    [result.output, 2002],
    [result.kept, 4002],
  ] as const) {
    assert.match(text, new RegExp(`^"ж{37}… \\(cut off: ${bytes} bytes\\)$`, 'u'));
    assert.ok(Buffer.byteLength(text) <= 100);
  }

  assert.deepEqual(toolLimits, { ms: 20_000, outputBytes: 16 * 1024 });
  let known: number | undefined;
  const asked = (context: ToolContext) => {
    known = context.outputBytes;
    return Promise.resolve({ data: 'x'.repeat(500), summary: '' });
  };
  assert.equal(Buffer.byteLength((await run(asked, { outputBytes: 300 })).output), 300);
  assert.equal(known, 300);
  const failed = await run(failing, { outputBytes: 300 });
  assert.deepEqual([failed.status, Buffer.byteLength(failed.output)], ['failed', 300]);
});

test('a tool runs only while the user may use it', async () => {
  let runs = 0;
  const count = () => {
    runs += 1;
    return done();
  };
  assert.equal((await run(count)).status, 'done');
  const denied = problem('admin_only', { detail: 'Not any more.' });
  for (const [currentUser, why] of [
    [() => Promise.reject(denied), 'For administrators only. Not any more.'],
    [() => Promise.resolve({ ...USER, permissions: [] }), 'it needs svc.tools.use'],
  ] as const) {
    const { status, summary } = await run(count, { currentUser });
    assert.deepEqual([status, summary], ['failed', why]);
  }
  assert.equal(runs, 1);
});

const context = { user: USER, sessionId: 's', signal: unaborted, noteChange, outputBytes: 16_384 };

/** Creates services with one file, and records the requests for its parts. */
function withFile(text: string) {
  const asked: { name: string; bytes: number }[] = [];
  const content = Buffer.from(text);
  const readPart: Files['readPart'] = (_user, { name, from, bytes }) => {
    asked.push({ name, bytes });
    const part = content.subarray(from, from + bytes);
    return Promise.resolve({ part, size_bytes: content.length, media_type: TEXT_TYPE });
  };
  return { asked, services: { ...services, files: { readPart } as Files } };
}

async function readAll(text: string, outputBytes: number): Promise<string[]> {
  const own = { ...withFile(text).services, ...context, outputBytes };
  const parts: string[] = [];
  for (let from: number | undefined = 0; from !== undefined;) {
    const { data } = await readFile.run({ name: 'a.txt', from }, own);
    assert.ok(Buffer.byteLength(JSON.stringify(data)) <= outputBytes);
    const part = data as { text: string; next?: number };
    parts.push(part.text);
    from = part.next;
  }
  return parts;
}

test('read_file reads a file in whole characters, part by part', async () => {
  // Each part would cut a character of two to four bytes after the first byte.
  for (const letter of ['ж', '語', '🏠']) {
    const text = `a${letter.repeat(14_000)}`;
    const parts = await readAll(text, 16 * 1024);
    assert.equal(parts.join(''), text);
    assert.equal(parts.length, Math.ceil(Buffer.byteLength(text) / 12_000), letter);
  }
  // In JSON a line break takes two bytes.
  for (const text of ['🏠\n'.repeat(900), 'ж'.repeat(3000), '\n'.repeat(20_000)]) {
    assert.equal((await readAll(text, 400)).join(''), text);
  }

  const { asked, services: files } = withFile(`a${'🏠'.repeat(4)}`);
  const name = 'мій їжак.txt'.normalize('NFC');
  for (const [from, text] of [
    [2, '🏠'.repeat(3)],
    [900, ''],
  ] as const) {
    const input = { name: name.normalize('NFD'), from };
    const { data } = await readFile.run(input, { ...files, ...context });
    assert.deepEqual(data, { name, text });
  }
  const part = { name, bytes: 12_000 };
  assert.deepEqual(asked, [part, part]);
});

const folder = await mkdtemp(join(tmpdir(), 'lookup-endpoint-'));
after(() => rm(folder, { recursive: true }));

const RECORD = {
  id: 'ssh:git@web1:22',
  name: 'Forge',
  type: 'http',
  status: 'active',
  exposure: 'private',
  docs: 'docs/forge.md',
  last_reviewed: '2026-11-01',
  url: 'https://admin:hunter2@forge.example.test/?token=hunter2',
};

const lookUp = (inventoryFile: string | undefined, words: string) =>
  lookupEndpoint.run({ words }, { ...services, ...context, inventoryFile });

test('lookup_endpoint finds ten endpoints and counts all, without their secrets', async () => {
  const file = join(folder, 'endpoints.json');
  const records = Array.from({ length: 12 }, (_, nth) => ({ ...RECORD, id: `e${nth}`, url: '' }));
  await writeFile(file, JSON.stringify([{ ...RECORD, name: 'Other' }, ...records]));
  const { data, summary } = await lookUp(file, 'FORGE e');
  const other = { ...RECORD, name: 'Other', url: 'https://***@forge.example.test/?token=***' };
  assert.deepEqual(data, { total: 13, endpoints: [other, ...records.slice(0, 9)] });
  assert.match(summary, /^ssh:git@web1:22, e0, .*, e8$/);
  assert.equal((await lookUp(file, 'other ssh:git@web1')).summary, 'ssh:git@web1:22');
  assert.equal((await lookUp(file, 'hunter2')).summary, 'nothing found');

  const invalid = join(folder, 'invalid.json');
  await writeFile(invalid, JSON.stringify([{ ...RECORD, exposure: 'everybody' }]));
  for (const [path, message] of [
    [undefined, /there is no inventory here: INVENTORY_FILE names none/],
    [join(folder, 'missing.json'), /cannot be read: INVENTORY_FILE must name it/],
    [invalid, /the inventory is not valid: .*invalid\.json:1:\d+: exposure must be one of/],
  ] as const) {
    await assert.rejects(
      lookUp(path, 'forge'),
      (error) => error instanceof ToolError && message.test(error.message),
    );
  }
});
