import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { buildContext, estimateTokens, MAX_CONTEXT_TOKENS } from '../../src/agent/context.ts';

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
    memory: [],
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

test('the last message goes even where it leaves no room', () => {
  const long = 'a'.repeat(MAX_CONTEXT_TOKENS * 8);
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
      assert.ok(context.messages.length < 2 || context.tokenEstimate <= MAX_CONTEXT_TOKENS);
    }),
    { numRuns: 100 },
  );
});
