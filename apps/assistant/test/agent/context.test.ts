import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { buildContext as build, countRecent } from '../../src/conversations/agent/context.ts';
import { tokensOfPart } from '../../src/conversations/agent/request.ts';
import {
  divideWindow,
  estimateRequest,
  estimateTokens,
} from '../../src/conversations/agent/window.ts';

const WINDOW = 32_768;
const REQUEST_TOKENS = divideWindow(WINDOW, 0).request;

type Chosen = Parameters<typeof build>[0];

/** Builds a context with defaults. */
const buildContext = (chosen: Partial<Chosen>) =>
  build({
    system: '',
    about: '',
    facts: [],
    files: [],
    summary: null,
    messages: [],
    tools: [],
    modelName: '',
    now: new Date(0),
    contextTokens: WINDOW,
    ...chosen,
  });

/** Tokens of an empty context. */
const NOTHING_TOKENS = buildContext({}).tokenEstimate;

const message = (content: string) => ({ role: 'user', content, tool_calls: null });
const fact = (key: string, value = '') => ({ category: 'c', key, value });

const contentsOf = ({ messages }: { messages: readonly { content: string }[] }) =>
  messages.map(({ content }) => content);

test('a small conversation is sent whole and in order', () => {
  const { context, tokenEstimate } = buildContext({
    system: 'Be kind.',
    facts: [fact('new'), fact('old')],
    messages: [message('three'), message('two'), message('one')],
  });
  assert.equal(context.system, 'Be kind.');
  assert.deepEqual(
    context.memory.map(({ key }) => key),
    ['new', 'old'],
  );
  assert.deepEqual(contentsOf(context), ['one', 'two', 'three']);
  assert.ok(tokenEstimate > NOTHING_TOKENS + 5 && tokenEstimate < NOTHING_TOKENS + 80);
});

test('the text about the user is cut, and files beyond their share are counted', () => {
  const { about } = buildContext({ about: 'ж'.repeat(WINDOW) }).context;
  assert.ok(about.length <= WINDOW / 8 && about.length > WINDOW / 8 - 50);
  const files = Array.from({ length: 100 }, (_, nth) => ({
    name: `${nth}${'ж'.repeat(95)}`,
    media_type: 'text/plain; charset=utf-8',
    size_bytes: 5,
  }));
  const { context, request } = buildContext({ files, contextTokens: 8192 });
  const shown = context.files.length;
  assert.ok(shown > 5 && shown < 20, String(shown));
  assert.deepEqual(context.files, files.slice(0, shown));
  assert.equal(context.filesLeftOut, 100 - shown);
  assert.match(request.system, new RegExp(`^- and ${100 - shown} more`, 'm'));
});

test('a long last question is sent alone', () => {
  const long = 'a'.repeat(REQUEST_TOKENS * 8);
  const { context } = buildContext({
    facts: [fact('k', 'v')],
    about: 'Has a dog.',
    summary: 'Of before.',
    messages: [message(long), message('b')],
  });
  assert.deepEqual(contentsOf(context), [long]);
  assert.deepEqual([context.memory, context.about, context.summary], [[], '', '']);
});

test('long instructions reduce all other shares', () => {
  const facts = Array.from({ length: 50 }, (_, nth) => fact(`k${nth}`, 'v'.repeat(20)));
  const { context, tokenEstimate, recentCount } = buildContext({
    system: 'x'.repeat(4 * 1500),
    contextTokens: 2048,
    facts,
    about: 'x'.repeat(2000),
    messages: [
      message('Дім?'),
      message('Де саме?'),
      message('ж'.repeat(4000)),
      message('Добрий день'),
    ],
  });
  assert.deepEqual(contentsOf(context), ['Де саме?', 'Дім?']);
  assert.ok(context.memory.length > 1 && context.memory.length < 10);
  assert.ok(context.about.length > 50 && context.about.length < 200);
  assert.ok(tokenEstimate < 1850 && recentCount === 2, String(tokenEstimate));
});

test('a Cyrillic letter counts as half a token, a Latin one as a quarter', () => {
  assert.equal(estimateTokens('оселя оселя'), 6);
  assert.equal(estimateTokens('dwelling'), 2);
  assert.equal(estimateTokens(''), 0);
});

test('the latest items are sent without a gap, within their shares', () => {
  const texts = fc.array(fc.string({ maxLength: 40_000 }), { maxLength: 20 });
  const window = fc.integer({ min: 2048, max: WINDOW });
  fc.assert(
    fc.property(
      fc.string({ maxLength: 60_000 }),
      texts,
      texts,
      window,
      (system, values, contents, contextTokens) => {
        const facts = values.map((value, index) => fact(String(index), value));
        const messages = contents.map((content) => message(content));
        const { context, request, tokenEstimate } = buildContext({
          system,
          facts,
          messages,
          contextTokens,
        });
        assert.deepEqual(context.memory, facts.slice(0, context.memory.length));
        assert.deepEqual(context.messages, messages.slice(0, context.messages.length).toReversed());
        assert.equal(context.messages.length === 0, messages.length === 0);
        assert.equal(tokenEstimate, estimateRequest(request));
        const fixed = buildContext({ system, contextTokens }).tokenEstimate;
        const [question] = messages;
        const least = fixed + (question === undefined ? 0 : tokensOfPart.message(question));
        assert.ok(tokenEstimate <= Math.max(least, divideWindow(contextTokens, fixed).request));
      },
    ),
    { numRuns: 100 },
  );
});

test('messages beside a summary begin with a question, and the last question stays', () => {
  const role = fc.constantFrom('user', 'assistant');
  const said = fc.record({ role, content: fc.string({ maxLength: 3000 }) });
  fc.assert(
    fc.property(
      fc.array(said, { maxLength: 30 }),
      fc.integer({ min: -10, max: 2000 }),
      (rows, room) => {
        const messages = rows.map((row) => ({ ...row, tool_calls: null }));
        const kept = messages.slice(0, countRecent(messages, room));
        const question = messages.findIndex((one) => one.role === 'user');
        if (question === -1) return assert.deepEqual(kept, []);
        assert.equal(kept.at(-1)?.role, 'user');
        assert.ok(kept.length > question);
        const tokens = kept.reduce((sum, one) => sum + estimateTokens(one.content), 0);
        assert.ok(kept.length === question + 1 || tokens <= room);
      },
    ),
  );
});

test('messages beside a summary of maximum length fit', () => {
  const content = fc.nat(3000).map((length) => 'ж'.repeat(length));
  fc.assert(
    fc.property(
      fc.array(content, { minLength: 4, maxLength: 40 }),
      fc.array(content, { maxLength: 20 }),
      fc.integer({ min: 2048, max: WINDOW }),
      fc.double({ min: 0, max: 0.8, noNaN: true }),
      (contents, values, contextTokens, instructions) => {
        const system = 'x'.repeat(4 * contextTokens * instructions);
        const messages = contents.map((one, nth) => ({
          ...message(one),
          role: nth % 2 === 0 ? 'user' : 'assistant',
        }));
        const facts = values.map((value, index) => fact(String(index), value));
        const chosen = { system, facts, contextTokens, about: 'x'.repeat(9000) };
        const { recentCount, summaryTokens } = buildContext({ ...chosen, messages });
        if (recentCount === 1) return;
        const stays = messages.slice(0, recentCount);
        const summary = 'x'.repeat(summaryTokens * 4);
        const { context } = buildContext({ ...chosen, messages: stays, summary });
        assert.equal(context.messages.length, stays.length);
      },
    ),
  );
});
