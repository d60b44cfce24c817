import assert from 'node:assert/strict';
import { test } from 'node:test';
import { ProblemError } from '@oselya/kit';
import { type ChatPart, type ChatRequest, defineModelSchema } from '@oselya/model';
import { Type } from 'typebox';
import { type AgentEvent, fixedLimits, runAgent } from '../../src/conversations/agent/agent.ts';

/** A round of the model: its words, its token count, and its number of calls with their input. */
type Round = { words?: string[]; tokens?: number | null; tools?: number; input?: object };

const LOOK = {
  name: 'look',
  description: 'Looks.',
  input: defineModelSchema('look', Type.Object({})),
};

/** Has an agent answer with the rounds of a scripted model. */
async function answer(
  rounds: readonly Round[],
  { outputTokens = 1000, contextTokens = 32_768, output = 'ok', question = 'Hi' } = {},
) {
  let toolsRun = 0;
  const rooms: number[] = [];
  const asked: ChatRequest[] = [];
  const events: AgentEvent[] = [];
  async function* streamChat(request: ChatRequest): AsyncGenerator<ChatPart, void, undefined> {
    asked.push({ ...request, messages: [...request.messages] });
    const { words = [], tokens = null, tools = 0, input = {} } = rounds[asked.length - 1] ?? {};
    for (const text of words) yield { type: 'text', text };
    for (let nth = 0; nth < tools; nth += 1) {
      yield { type: 'tool_call', call: { id: `${asked.length}-${nth}`, name: 'look', input } };
    }
    const usage = { inputTokens: null, outputTokens: tokens };
    yield { type: 'end', reason: tools > 0 ? 'tool_calls' : 'stop', model: 'm', usage };
  }
  const running = runAgent({
    model: { streamChat },
    request: { system: 'Help.', messages: [{ role: 'user', content: question }], tools: [LOOK] },
    runTool: (_call, { outputBytes }) => {
      toolsRun += 1;
      rooms.push(outputBytes);
      return Promise.resolve({
        status: 'done',
        output: output.slice(0, outputBytes),
        kept: output,
        summary: '',
        isData: false,
        changes: [],
      });
    },
    limits: { ...fixedLimits, outputTokens },
    contextTokens,
    signal: new AbortController().signal,
  });
  let code: string | undefined;
  let detail: string | undefined;
  try {
    for await (const event of running) events.push(event);
  } catch (error) {
    if (!(error instanceof ProblemError)) throw error;
    ({ code, detail } = error);
  }
  const text = events.map((event) => (event.type === 'text' ? event.text : '')).join('');
  const statuses = events.flatMap((event) =>
    event.type === 'tool.finished' ? [event.result.status] : [],
  );
  return { asked, text, statuses, code, detail, toolsRun, rooms };
}

test('the tokens of an answer are counted over its rounds, by the server or by parts', async () => {
  const counted = await answer([{ tools: 1, tokens: 6 }, { words: ['a', 'b', 'c'] }], {
    outputTokens: 10,
  });
  assert.deepEqual(
    counted.asked.map(({ maxOutputTokens }) => maxOutputTokens),
    [10, 4],
  );
  assert.deepEqual([counted.text, counted.code], ['abc', undefined]);

  const uncounted = await answer([{ words: ['a', 'b'], tools: 1 }, { words: ['c', 'd'] }], {
    outputTokens: 4,
  });
  assert.deepEqual([uncounted.text, uncounted.code], ['ab\n\nc', 'answer_too_long']);
});

test('an answer that used its tokens for calls ends without running them', async () => {
  const { asked, statuses, code } = await answer([{ tools: 2, tokens: 50 }], { outputTokens: 50 });
  assert.deepEqual([asked.length, statuses, code], [1, [], 'answer_too_long']);
});

test('a tool gets the room that the window has beside the answer, and does not run without any', async () => {
  const rounds = [{ tools: 1 }, { tools: 2 }, { words: ['Done.'] }];
  const { text, statuses, asked, rooms } = await answer(rounds, {
    contextTokens: 2048,
    outputTokens: 800,
    output: 'x'.repeat(7000),
  });
  assert.deepEqual(statuses, ['done', 'failed', 'failed']);
  assert.equal(text, 'Done.');
  assert.match(JSON.stringify(asked.at(-1)?.messages.at(-1)), /no room for more/);
  // A quarter of the window is the answer's, and what has been said is there too.
  const [room = 0] = rooms;
  assert.ok(room > 4 * 1300 && room < 4 * (2048 - 512), String(room));
  const { maxOutputTokens = 0 } = asked.at(-1) ?? {};
  assert.ok(maxOutputTokens > 400 && maxOutputTokens < 520, String(maxOutputTokens));
});

test('of several calls at once each leaves room for the failure of the later ones', async () => {
  const rounds = [{ tools: 16 }, { words: ['Done.'] }];
  const { text, statuses, asked } = await answer(rounds, {
    contextTokens: 2048,
    outputTokens: 800,
    output: 'x'.repeat(7000),
  });
  assert.deepEqual(
    [statuses.length, statuses[0], statuses[1], text],
    [16, 'done', 'failed', 'Done.'],
  );
  assert.ok((asked.at(-1)?.maxOutputTokens ?? 0) > 400);
});

test('a question that leaves no room for an answer is rejected with its maximum length', async () => {
  const question = 'ж'.repeat(16_000);
  const bounds = { contextTokens: 8192, outputTokens: 3000 };
  const { asked, code, detail = '' } = await answer([], { ...bounds, question });
  assert.deepEqual([asked.length, code], [0, 'message_too_long']);
  const [, most = ''] = /room for (\d+)\./.exec(detail) ?? [];
  assert.match(detail, /^It is about 8004 tokens long.*in parts, or attach it as a text file/);
  const fitting = 'ж'.repeat((Number(most) - 4) * 2);
  const told = await answer([{ words: ['Yes.'] }], { ...bounds, question: fitting });
  assert.deepEqual([told.text, told.asked[0]?.maxOutputTokens], ['Yes.', 512]);
  const longer = await answer([], { ...bounds, question: `${fitting}жжж` });
  assert.equal(longer.code, 'message_too_long');
});

test('an answer has eight rounds, the last one without calls', async () => {
  const asking = Array.from({ length: 7 }, () => ({ tools: 1 }));
  const last = { words: ['Enough.'], tools: 1 };
  const { asked, text, code, toolsRun } = await answer([...asking, last, { words: ['More.'] }]);
  assert.deepEqual(
    asked.map(({ tools, toolChoice = 'auto' }) => [tools?.length, toolChoice]),
    [...Array.from({ length: 7 }, () => [1, 'auto']), [1, 'none']],
  );
  assert.deepEqual([text, code, toolsRun], ['Enough.', undefined, 7]);
});

test('a model that ignores the tool choice is asked once more, without tools', async () => {
  const rounds = Array.from({ length: 8 }, () => ({ tools: 1 }));
  const { asked, text, toolsRun } = await answer([...rounds, { words: ['Enough.'] }]);
  assert.deepEqual([asked.length, asked[8]?.tools, text, toolsRun], [9, [], 'Enough.', 7]);
});

test('an answer without a word after its rounds fails', async () => {
  const rounds = Array.from({ length: 10 }, () => ({ tools: 1 }));
  const { asked, code } = await answer(rounds);
  assert.deepEqual([asked.length, code], [9, 'model_failed']);
});

test('sixteen tools run for one answer', async () => {
  const rounds = [{ tools: 10 }, { tools: 10 }, { words: ['Done.'], tools: 5 }];
  const { asked, statuses, text, toolsRun } = await answer(rounds);
  assert.deepEqual(
    statuses.map((status) => status === 'done'),
    Array.from({ length: 20 }, (_, index) => index < 16),
  );
  assert.deepEqual([toolsRun, text], [16, 'Done.']);
  assert.match(JSON.stringify(asked.at(-1)?.messages.at(-1)), /at most 16 tools/);
  // It is told, and asked to answer with what it has.
  assert.deepEqual(
    asked.map(({ toolChoice = 'auto' }) => toolChoice),
    ['auto', 'auto', 'none'],
  );
});

test('the calls of a round beyond the maximum are left out, with a note', async () => {
  const { asked, statuses, text } = await answer([{ tools: 300 }, { words: ['Done.'] }], {
    outputTokens: 4000,
  });
  assert.deepEqual([statuses.length, text], [16, 'Done.']);
  const { messages = [], toolChoice } = asked.at(-1) ?? {};
  assert.deepEqual([messages.length, toolChoice], [1 + 1 + 16, 'none']);
  const [, calling] = messages;
  assert.equal(calling?.role === 'assistant' && calling.toolCalls?.length, 16);
  const told = messages.filter(({ content }) => content.includes('left out'));
  assert.deepEqual(
    told.map(({ content }) => content),
    ['ok\n(284 more calls were left out: at most 16 tools are run for one answer.)'],
  );
});

test('calls count as output', async () => {
  const long = { tools: 1, input: { query: 'x'.repeat(400) } };
  const { asked, code } = await answer([long, long, { words: ['Done.'] }], { outputTokens: 250 });
  assert.deepEqual([asked[0]?.maxOutputTokens, asked.length, code], [250, 3, undefined]);
  const second = asked[1]?.maxOutputTokens ?? 0;
  assert.ok(second < 150 && second > 140, `about 100 tokens less, not ${second}`);

  const endless = await answer([{ tools: 10_000, tokens: 1 }], { outputTokens: 100 });
  assert.deepEqual([endless.statuses, endless.code], [[], 'answer_too_long']);
});

/** Returns an input with nested arrays. */
const nested = (levels: number) =>
  JSON.parse(`{"a":${'['.repeat(levels - 1)}${']'.repeat(levels - 1)}}`) as object;

test('a call with a too deeply nested input fails the answer', async () => {
  for (const levels of [33, 200_000]) {
    const { asked, statuses, code, detail } = await answer([{ tools: 1, input: nested(levels) }]);
    assert.deepEqual([asked.length, statuses, code], [1, [], 'model_failed']);
    assert.match(detail ?? '', /nested more than 32 levels/);
  }
  const fitting = await answer([{ tools: 1, input: nested(32) }, { words: ['Done.'] }]);
  assert.deepEqual([fitting.statuses, fitting.text], [['done'], 'Done.']);
});

test('the length of the text is limited whatever the server sends', async () => {
  const parts = Array.from({ length: 10 }, () => 'слово'.repeat(8));
  const { text, code } = await answer([{ words: parts }], { outputTokens: 20 });
  assert.equal(code, 'answer_too_long');
  assert.equal(text, parts.join('').slice(0, 20 * 6));
  const single = await answer([{ words: ['x'.repeat(1_000_000)] }], { outputTokens: 20 });
  assert.deepEqual([single.text, single.code], ['x'.repeat(120), 'answer_too_long']);
  const within = await answer([{ words: ['x'.repeat(120)] }], { outputTokens: 20 });
  assert.deepEqual([within.text.length, within.code], [120, undefined]);
  const rounds = [{ words: ['x'.repeat(60)], tools: 1, tokens: 1 }, { words: ['b'] }];
  const counted = await answer(rounds, { outputTokens: 20 });
  assert.equal(counted.asked[1]?.maxOutputTokens, 9);
});
