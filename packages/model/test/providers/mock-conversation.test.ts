import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Type } from 'typebox';
import {
  type ChatPart,
  type Conversation,
  createModelClient,
  defineModelSchema,
} from '../../src/index.ts';
import { failsWith } from '../support.ts';

const settings = { mode: 'mock', timeoutMs: 10_000, embeddingDimensions: 8 } as const;
const tool = {
  name: 'look',
  description: 'Looks.',
  input: defineModelSchema('look', Type.Object({})),
};

test('the mock answers by the rules of whoever has it, word by word, with its tools', async () => {
  const seen: Conversation[] = [];
  const client = createModelClient({
    ...settings,
    mockAgent(conversation) {
      seen.push(conversation);
      const toolCalls = [{ id: 'c-1', name: 'look', input: { at: 'дім' } }];
      return { text: 'Зараз  гляну.', toolCalls };
    },
  });
  const parts: ChatPart[] = [];
  const request = {
    operation: 'chat',
    system: 'Help.',
    messages: [
      { role: 'user', content: 'Покажи.' },
      { role: 'assistant', content: '', toolCalls: [{ id: 'c-0', name: 'look', input: {} }] },
      { role: 'tool', toolCallId: 'c-0', toolName: 'look', content: 'nothing' },
    ],
    tools: [tool],
  } as const;
  for await (const part of client.streamChat(request)) parts.push(part);
  assert.deepEqual(parts, [
    { type: 'text', text: 'Зараз  ' },
    { type: 'text', text: 'гляну.' },
    { type: 'tool_call', call: { id: 'c-1', name: 'look', input: { at: 'дім' } } },
    {
      type: 'end',
      reason: 'tool_calls',
      model: 'mock',
      usage: { inputTokens: 4, outputTokens: 12 },
    },
  ]);
  assert.deepEqual(seen, [{ system: 'Help.', messages: request.messages, tools: ['look'] }]);
});

test('without rules the mock refuses conversations', async () => {
  const client = createModelClient(settings);
  const parts = client.streamChat({ operation: 'chat', system: '', messages: [] });
  await failsWith(parts.next(), 'MODEL_REJECTED');
});
