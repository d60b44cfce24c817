import assert from 'node:assert/strict';
import { after, test } from 'node:test';
import { createModelClient } from '@oselya/model';
import { startLlamaServer } from '@oselya/testing/llama';
import { toDefinitions, TOOLS } from '../../src/conversations/tools/tools.ts';

// The model has random weights, so the tests only check the form of its answers.
const server = await startLlamaServer('--ctx-size', '8192', '--parallel', '1', '--alias', 'random');
after(server.close);
const model = createModelClient({
  mode: 'openai',
  baseUrl: server.url,
  chat: 'random',
  embedding: false,
  embeddingDimensions: 1,
  timeoutMs: 60_000,
  retry: { attempts: 1 },
});
after(() => model.close());

const definitions = toDefinitions(TOOLS);
const messages = [{ role: 'user', content: 'Знайди квартиру у Львові.' }] as const;

type Completion = {
  choices: {
    finish_reason: string;
    message: { tool_calls?: { function: { name: string; arguments: string } }[] };
  }[];
};

/** Forces the model to call a tool, and returns the choice of the completion. */
async function forceCall(definition: (typeof definitions)[number], seed: number) {
  const { name, description, input: parameters } = definition;
  const response = await fetch(`${server.url}/chat/completions`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({
      messages,
      tools: [{ type: 'function', function: { name, description, parameters } }],
      tool_choice: 'required',
      max_tokens: 1_500,
      seed,
    }),
  });
  const body = await response.text();
  assert.equal(response.status, 200, body);
  return (JSON.parse(body) as Completion).choices[0];
}

for (const definition of definitions) {
  test(`The server makes a grammar of the input of ${definition.name}, which calls follow`, async () => {
    let completeCount = 0;
    for (let seed = 1; seed <= 4; seed += 1) {
      const choice = await forceCall(definition, seed);
      if (choice?.finish_reason !== 'tool_calls') continue;
      for (const { function: call } of choice.message.tool_calls ?? []) {
        completeCount += 1;
        const input: unknown = JSON.parse(call.arguments);
        assert.deepEqual(Object.keys(input as object), definition.input.required);
      }
    }
    assert.ok(completeCount > 0, 'no call was complete');
  });
}

test('Questions with all tools are answered, some of them by calls', async () => {
  let callCount = 0;
  for (let round = 0; round < 15; round += 1) {
    const request = { operation: 'chat', system: 'Help.', messages, tools: definitions };
    const parts = model.streamChat({ ...request, maxOutputTokens: 1_000 });
    for await (const part of parts) if (part.type === 'tool_call') callCount += 1;
  }
  assert.ok(callCount > 0, 'no tool was called');
});
