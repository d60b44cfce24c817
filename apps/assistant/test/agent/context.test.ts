import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import {
  buildContext as build,
  countRecent,
  estimateTokens,
  sharesOf,
} from '../../src/agent/context.ts';

const WINDOW = 32_768;
const REQUEST_TOKENS = sharesOf(WINDOW).request;

type Chosen = Parameters<typeof build>[0];

/** In a window of usual size, with what a test does not name left out. */
const buildContext = (chosen: Pick<Chosen, 'system' | 'facts' | 'messages'> & Partial<Chosen>) =>
  build({ about: '', summary: null, toolTokens: 0, contextTokens: WINDOW, ...chosen });

const message = (content: string, tool_calls: unknown = null) => ({
  role: 'user',
  content,
  tool_calls,
});
const fact = (key: string, value = '') => ({ category: 'c', key, value });

test('a small conversation goes whole, in its order', () => {
  const context = buildContext({
    system: 'Be kind.',
    facts: [fact('new'), fact('old')],
    messages: [message('three'), message('two'), message('one')],
  });
  assert.equal(context.system, 'Be kind.');
  assert.deepEqual(
    context.memory.map(({ key }) => key),
    ['new', 'old'],
  );
  assert.deepEqual(
    context.messages.map(({ content }) => content),
    ['one', 'two', 'three'],
  );
  assert.ok(context.tokenEstimate > 5 && context.tokenEstimate < 40);
});

test('an empty conversation is sent as nothing', () => {
  assert.deepEqual(buildContext({ system: '', facts: [], messages: [] }), {
    system: '',
    about: '',
    memory: [],
    summary: null,
    messages: [],
    tokenEstimate: 0,
  });
});

test('what the assistant used takes room too', () => {
  const plain = buildContext({ system: '', facts: [], messages: [message('a')] });
  const used = buildContext({
    system: '',
    facts: [],
    messages: [message('a', [{ name: 'search_listings', arguments: { query: 'a'.repeat(100) } }])],
  });
  assert.ok(used.tokenEstimate > plain.tokenEstimate + 20);
});

test('tools and a summary take room too', () => {
  const messages = [message('a')];
  const plain = buildContext({ system: '', facts: [], messages });
  const more = buildContext({ system: '', facts: [], messages, summary: 'abcd', toolTokens: 50 });
  assert.equal(more.tokenEstimate, plain.tokenEstimate + 51);
  assert.equal(more.summary, 'abcd');
  const { about, tokenEstimate } = buildContext({
    system: '',
    facts: [],
    messages,
    about: 'ж'.repeat(WINDOW),
  });
  assert.equal(about.length, WINDOW / 8);
  assert.equal(tokenEstimate, plain.tokenEstimate + WINDOW / 16);
});

test('the last message goes even where it leaves no room', () => {
  const long = 'a'.repeat(REQUEST_TOKENS * 8);
  const context = buildContext({ system: '', facts: [], messages: [message(long), message('b')] });
  assert.deepEqual(
    context.messages.map(({ content }) => content),
    [long],
  );
});

test('a Cyrillic letter counts as half a token, a Latin one as a quarter', () => {
  assert.equal(estimateTokens('оселя оселя'), 6);
  assert.equal(estimateTokens('dwelling'), 2);
  assert.equal(estimateTokens(''), 0);
});

test('whatever there is, the latest of it goes without a gap and within the bound', () => {
  const texts = fc.array(fc.string({ maxLength: 40_000 }), { maxLength: 20 });
  fc.assert(
    fc.property(fc.string({ maxLength: 60_000 }), texts, texts, (system, values, contents) => {
      const facts = values.map((value, index) => fact(String(index), value));
      const messages = contents.map((content) => message(content));
      const context = buildContext({ system, facts, messages });
      assert.deepEqual(context.memory, facts.slice(0, context.memory.length));
      assert.deepEqual(context.messages, messages.slice(0, context.messages.length).toReversed());
      assert.equal(context.messages.length === 0, messages.length === 0);
      assert.ok(context.messages.length < 2 || context.tokenEstimate <= REQUEST_TOKENS);
    }),
    { numRuns: 100 },
  );
});

test('what stays beside a summary begins with a question, and the last question always stays', () => {
  const role = fc.constantFrom('user', 'assistant');
  const said = fc.record({ role, content: fc.string({ maxLength: 3000 }) });
  fc.assert(
    fc.property(
      fc.array(said, { maxLength: 30 }),
      fc.integer({ min: 100, max: 9000 }),
      (rows, window) => {
        const messages = rows.map((row) => ({ ...row, tool_calls: null }));
        const kept = messages.slice(0, countRecent(messages, window));
        const question = messages.findIndex((one) => one.role === 'user');
        if (question === -1) return assert.deepEqual(kept, []);
        assert.equal(kept.at(-1)?.role, 'user');
        assert.ok(kept.length > question);
        const tokens = kept.reduce((sum, one) => sum + estimateTokens(one.content), 0);
        assert.ok(kept.length === question + 1 || tokens <= sharesOf(window).recent);
      },
    ),
  );
});
