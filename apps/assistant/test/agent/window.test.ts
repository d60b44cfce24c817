import assert from 'node:assert/strict';
import { test } from 'node:test';
import { ProblemError } from '@oselya/kit';
import type { ChatPart, ChatRequest } from '@oselya/model';
import fc from 'fast-check';
import { Type } from 'typebox';
import { fixedLimits, runAgent } from '../../src/conversations/agent/agent.ts';
import { buildContext } from '../../src/conversations/agent/context.ts';
import { estimateRequest } from '../../src/conversations/agent/window.ts';
import { summaryRequest } from '../../src/conversations/agent/summaries.ts';
import { makeTitle } from '../../src/conversations/agent/title.ts';
import { mostAnswerTokens } from '../../src/config.ts';
import { defineTool } from '../../src/conversations/tools/tool.ts';
import { createToolBox, toDefinitions } from '../../src/conversations/tools/tools.ts';
import { userOf } from '../helpers/people.ts';

const { signal } = new AbortController();
const USER = userOf('u-olena', ['svc.tools.use']);

/** Texts of letters of one to four bytes. */
const text = (maxLength: number) =>
  fc
    .tuple(fc.constantFrom('x', 'ж', '語', '🏠', '"', '\n', 'слово '), fc.nat(maxLength))
    .map(([letters, length]) => letters.repeat(length / letters.length));

const outputs = fc.array(text(40_000), { minLength: 1, maxLength: 5 });

/** A round of the model: parts of text, and calls. */
const round = fc.record({
  words: fc.array(fc.oneof(text(60), text(3000)), { maxLength: 3 }),
  calls: fc.array(
    fc.record({
      name: fc.constantFrom('search_listings', 'remember_fact', 'none'),
      input: fc.oneof(text(30), text(400)),
    }),
    { maxLength: 20, size: 'small' },
  ),
});

const used = fc
  .record({ output: text(4000), round: fc.integer({ min: 1, max: 2 }) })
  .map((one) => ({
    id: 'call',
    name: 'search_listings',
    input: { query: 'дім' },
    ...one,
  }));

const earlier = fc.array(
  fc.record({
    role: fc.constantFrom('user', 'assistant'),
    content: fc.oneof(text(200), text(9000)),
    tool_calls: fc.option(fc.array(used, { maxLength: 3 })),
    unasked: fc.boolean(),
  }),
  { maxLength: 20 },
);

const fact = fc
  .tuple(text(40), text(500))
  .map(([key, value]) => ({ category: 'wishes', key, value }));
const file = text(60).map((name) => ({ name, media_type: 'text/plain', size_bytes: 10 }));

const conversation = fc
  .record({
    contextTokens: fc.oneof(fc.integer({ min: 2048, max: 40_000 }), fc.constant(2048)),
    ofMost: fc.oneof(fc.constant(1), fc.double({ min: 0, max: 1, noNaN: true })),
    system: fc.oneof(text(2000), text(6000), text(32_000)),
    about: fc.oneof(fc.constant(''), text(9000)),
    summary: fc.option(text(9000)),
    facts: fc.array(fact, { maxLength: 30 }),
    files: fc.array(file, { maxLength: 30 }),
    question: fc.oneof(text(400), text(16_000)),
    earlier,
    outputs,
    rounds: fc.array(round, { maxLength: 9 }),
  })
  .map(({ ofMost, ...rest }) => ({
    ...rest,
    outputTokens: Math.max(1, Math.floor(ofMost * mostAnswerTokens(rest.contextTokens))),
  }));

type Chosen = typeof conversation extends fc.Arbitrary<infer Value> ? Value : never;

/** Tools with scripted outputs. */
function toolsWith(told: readonly string[]) {
  let calls = 0;
  const tool = (name: 'search_listings' | 'remember_fact', changesMemory: boolean) =>
    defineTool({
      name,
      description: 'A test.',
      input: Type.Object({ query: Type.String() }),
      isData: !changesMemory,
      changesMemory,
      title: () => 'Testing',
      run: () => {
        calls += 1;
        return Promise.resolve({ data: told[calls % told.length], summary: '' });
      },
    });
  return [tool('search_listings', false), tool('remember_fact', true)];
}

/** Answers a conversation with the rounds of a model that obeys no limit. */
async function answer({
  contextTokens,
  outputTokens,
  question,
  rounds,
  outputs: told,
  ...chosen
}: Chosen) {
  const tools = toolsWith(told);
  const { request, tokenEstimate } = buildContext({
    ...chosen,
    messages: [{ role: 'user', content: question, tool_calls: null }, ...chosen.earlier],
    tools: toDefinitions(tools),
    modelName: '',
    now: new Date(0),
    contextTokens,
  });
  const asked: ChatRequest[] = [];
  async function* streamChat(next: ChatRequest): AsyncGenerator<ChatPart, void, undefined> {
    const { words, calls } = rounds[asked.length] ?? { words: ['Готово.'], calls: [] };
    asked.push({ ...next, messages: [...next.messages] });
    for (const part of words) yield await Promise.resolve({ type: 'text', text: part } as const);
    for (const [nth, { name, input }] of calls.entries()) {
      yield { type: 'tool_call', call: { id: `call-${nth}`, name, input: { query: input } } };
    }
    const usage = { inputTokens: null, outputTokens: null };
    yield { type: 'end', reason: calls.length > 0 ? 'tool_calls' : 'stop', model: 'm', usage };
  }
  const box = createToolBox({
    tools,
    services: {} as never,
    sessionId: 's',
    currentUser: () => Promise.resolve(USER),
    log: { warn: () => undefined },
  });
  const events = runAgent({
    model: { streamChat },
    request,
    runTool: (call, context) =>
      box.run(call, { ...context, signal, noteChange: () => Promise.resolve() }),
    limits: { ...fixedLimits, outputTokens },
    contextTokens,
    signal,
  });
  let code = 'completed';
  let written = '';
  try {
    for await (const event of events) if (event.type === 'text') written += event.text;
  } catch (error) {
    if (!(error instanceof ProblemError)) throw error;
    code = error.code;
  }
  return { asked, code, written, request, tokenEstimate };
}

test('a request and the answer to it fit into the window together', async () => {
  const codes = new Map<string, number>();
  await fc.assert(
    fc.asyncProperty(conversation, async (chosen) => {
      const { asked, code, tokenEstimate, request } = await answer(chosen);
      codes.set(code, (codes.get(code) ?? 0) + 1);
      for (const one of asked) {
        const tokens = estimateRequest(one);
        const most = one.maxOutputTokens ?? Infinity;
        assert.ok(most >= 1 && most <= chosen.outputTokens, `${most} of ${chosen.outputTokens}`);
        assert.ok(tokens + most <= chosen.contextTokens, `${tokens} + ${most}`);
      }
      assert.equal(tokenEstimate, estimateRequest(request));
      assert.ok(asked.length > 0 || code === 'message_too_long');
      assert.ok(
        ['completed', 'message_too_long', 'answer_too_long', 'model_failed'].includes(code),
      );
    }),
    { numRuns: 150 },
  );
  // What is tried is of both kinds.
  assert.ok((codes.get('completed') ?? 0) > 10 && (codes.get('message_too_long') ?? 0) > 10);
});

test('requests for summaries and titles fit into the window', async () => {
  const { signal: unaborted } = new AbortController();
  const tokens = fc.record({
    contextTokens: fc.integer({ min: 2048, max: 40_000 }),
    ofMost: fc.double({ min: 0, max: 1 / 8, noNaN: true }),
  });
  await fc.assert(
    fc.asyncProperty(tokens, text(20_000), earlier, async (window, before, messages) => {
      const { contextTokens, ofMost } = window;
      const summaryTokens = Math.floor(contextTokens * ofMost);
      const bounds = { before, modelName: '', summaryTokens, contextTokens };
      const { request, count } = summaryRequest(messages, bounds);
      assert.equal(count > 0, messages.length > 0);
      assert.ok(estimateRequest(request) + request.maxOutputTokens <= contextTokens);

      const titles: ChatRequest[] = [];
      async function* streamChat(asked: ChatRequest): AsyncGenerator<ChatPart, void, undefined> {
        titles.push(asked);
        yield await Promise.resolve({ type: 'text', text: 'Дім' } as const);
      }
      await makeTitle({ streamChat }, { text: before, modelName: '', signal: unaborted });
      const [title] = titles;
      assert.ok(title !== undefined);
      assert.ok(estimateRequest(title) + (title.maxOutputTokens ?? Infinity) <= 2048);
    }),
    { numRuns: 100 },
  );
});
