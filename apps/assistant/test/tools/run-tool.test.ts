import assert from 'node:assert/strict';
import { setTimeout as sleep } from 'node:timers/promises';
import { test } from 'node:test';
import { Type } from 'typebox';
import type { User } from '../../src/access/permissions.ts';
import { problem } from '../../src/errors.ts';
import { createToolBox, toolLimits } from '../../src/tools/run-tool.ts';
import { defineTool, type ToolContext, ToolError, type ToolOutput } from '../../src/tools/tool.ts';
import { userOf } from '../helpers/people.ts';

const USER = userOf('u-olena', ['svc.tools.use']);

const isUser = () => Promise.resolve(USER);
const noteChange = () => Promise.resolve();

const never = new Promise<never>(() => undefined);

/** Runs a tool that does what a test wants, in the place of the search. */
function run(
  work: (context: ToolContext) => Promise<ToolOutput>,
  {
    limits = toolLimits,
    signal = new AbortController().signal,
    currentUser = isUser,
    outputBytes = Infinity,
  }: {
    limits?: typeof toolLimits;
    signal?: AbortSignal;
    currentUser?: () => Promise<User>;
    outputBytes?: number;
  } = {},
) {
  const tool = defineTool({
    name: 'search_listings',
    description: 'A test.',
    input: Type.Object({}, { additionalProperties: false }),
    isData: true,
    changesMemory: false,
    title: () => 'Testing',
    run: (_input, context) => work(context),
  });
  const log = { warn: () => undefined };
  const box = createToolBox({ tools: [tool], sessionId: 's', currentUser, log, limits });
  const call = { id: '1', name: tool.name, input: {} };
  return box.run(call, { hasReadData: false, signal, noteChange, outputBytes });
}

/** Waits as what is asked over a network does: until it is told to stop. */
async function hang({ signal }: ToolContext): Promise<ToolOutput> {
  await sleep(60_000, undefined, { signal });
  return { data: 'too late', summary: 'too late' };
}

test('null stands for an optional key that is left out, and bounds are checked here', async () => {
  const inputs: unknown[] = [];
  const tool = defineTool({
    name: 'search_listings',
    description: 'A test.',
    input: Type.Object(
      { query: Type.String({ maxLength: 5 }), limit: Type.Optional(Type.Integer({ maximum: 10 })) },
      { additionalProperties: false },
    ),
    isData: true,
    changesMemory: false,
    title: ({ limit = 'all' }) => `Testing ${limit}`,
    run: async (input) => {
      inputs.push(input);
      return { data: 'ok', summary: 'ok' };
    },
  });
  const box = createToolBox({
    tools: [tool],
    sessionId: 's',
    currentUser: isUser,
    log: { warn: () => undefined },
  });
  const { signal } = new AbortController();
  const call = (input: object) => ({ id: '1', name: tool.name, input });
  const runWith = (input: object) =>
    box.run(call(input), { hasReadData: false, signal, noteChange, outputBytes: Infinity });
  assert.equal((await runWith({ query: 'flat', limit: null })).status, 'done');
  assert.deepEqual(inputs, [{ query: 'flat' }]);
  assert.equal(box.title(call({ query: 'flat', limit: null })), 'Testing all');
  const faulty = [{ query: null, limit: null }, { query: 'too long' }, { query: '', limit: 11 }];
  for (const input of faulty) {
    assert.match((await runWith(input)).summary, /its input is not valid/);
  }
});

test('a tool that takes too long is stopped, and that is what the model and the person are told', async () => {
  const limits = { ...toolLimits, ms: 50 };
  const results = [
    await run(hang, { limits }),
    // As a statement behind a lock does, it minds no signal.
    await run(() => never, { limits }),
    await run(hang, { limits, currentUser: () => never }),
  ];
  for (const { status, output, kept, summary, isData } of results) {
    assert.deepEqual([status, summary, isData], ['failed', 'it took longer than 0.05 s', false]);
    assert.deepEqual(JSON.parse(output), { error: summary });
    assert.equal(kept, output);
  }
});

test('the end of the answer ends its tool, and is not told as a failure of it', async () => {
  const stopping = new AbortController();
  const started = Promise.withResolvers<AbortSignal>();
  const running = run(
    (context) => {
      started.resolve(context.signal);
      return hang(context);
    },
    { signal: stopping.signal },
  );
  const signal = await started.promise;
  stopping.abort('cancelled');
  assert.equal(signal.aborted, true);
  await assert.rejects(running, (reason) => reason === 'cancelled');
});

test('nor is the end of the answer held up by a tool that minds no signal', async () => {
  const stopping = new AbortController();
  const { signal } = stopping;
  const running = run(() => never, { signal });
  stopping.abort('cancelled');
  await assert.rejects(running, (reason) => reason === 'cancelled');
  await assert.rejects(
    run(() => never, { signal }),
    (reason) => reason === 'cancelled',
  );
});

test('an output is told whole up to its limit, and beyond it cut, which is said within the limit', async () => {
  const limits = { ...toolLimits, outputBytes: 100 };
  // In JSON it has quotation marks around it.
  const whole = 'ж'.repeat(49);
  const fitting = await run(() => Promise.resolve({ data: whole, summary: '' }), { limits });
  assert.equal(fitting.output, JSON.stringify(whole));

  const long = 'ж'.repeat(1000);
  const { status, output, kept } = await run(
    () => Promise.resolve({ data: long, kept: `${long}${long}`, summary: '' }),
    { limits },
  );
  assert.equal(status, 'done');
  for (const [text, bytes] of [
    [output, 2002],
    [kept, 4002],
  ] as const) {
    assert.match(text, new RegExp(`^"ж{37}… \\(cut off: ${bytes} bytes\\)$`, 'u'));
    assert.ok(Buffer.byteLength(text) <= 100);
  }
});

test('a tool has 20 s and 16 KiB where nothing else is said', async () => {
  assert.equal(toolLimits.ms, 20_000);
  const data = 'x'.repeat(17_000);
  const { output } = await run(() => Promise.resolve({ data, summary: '' }));
  const note = '… (cut off: 17002 bytes)';
  assert.equal(output, `"${'x'.repeat(16 * 1024 - 1 - Buffer.byteLength(note))}${note}`);
});

test('where the model can be told less, the tool knows, and what it gives or why it failed is held to that', async () => {
  let known: number | undefined;
  const { output } = await run(
    ({ outputBytes }) => {
      known = outputBytes;
      return Promise.resolve({ data: 'x'.repeat(500), summary: '' });
    },
    { outputBytes: 300 },
  );
  assert.equal(known, 300);
  assert.equal(Buffer.byteLength(output), 300);
  const failed = await run(() => Promise.reject(new ToolError('no '.repeat(500))), {
    outputBytes: 300,
  });
  assert.deepEqual([failed.status, Buffer.byteLength(failed.output)], ['failed', 300]);
});

const done = () => Promise.resolve({ data: 1, summary: '' });

test('a tool is not run for who may not have it run at that moment, and why not is told', async () => {
  let runs = 0;
  const count = () => {
    runs += 1;
    return done();
  };
  assert.equal((await run(count)).status, 'done');
  const refusal = problem('admin_only', { detail: 'Not any more.' });
  for (const [currentUser, why] of [
    [() => Promise.reject(refusal), 'For administrators only. Not any more.'],
    [() => Promise.resolve({ ...USER, permissions: [] }), 'it needs svc.tools.use'],
  ] as const) {
    const { status, summary } = await run(count, { currentUser });
    assert.deepEqual([status, summary], ['failed', why]);
  }
  assert.equal(runs, 1);
});

test('a name that a model made up is cut between characters, for people and for the model', async () => {
  const log = { warn: () => undefined };
  const box = createToolBox({ tools: [], sessionId: 's', currentUser: isUser, log });
  const call = { id: '1', name: `${'x'.repeat(59)}🏠`, input: {} };
  const { signal } = new AbortController();
  const { summary } = await box.run(call, {
    hasReadData: false,
    signal,
    noteChange,
    outputBytes: 500,
  });
  assert.equal(box.title(call), 'x'.repeat(59));
  assert.equal(summary, `there is no tool ${'x'.repeat(59)} here`);
});
