import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import type { ModelCallEvent, Usage } from '../src/index.ts';
import { createUsage } from '../src/usage.ts';
import { embeddings } from '../src/testing.ts';
import { chat, failure } from './server-answers.ts';
import { ask, FLAT, failsWith, flatAnswer, startScene } from './test-client.ts';

/** The sum of what was reported, as a caller may keep it. */
function summed(events: readonly ModelCallEvent[]): Usage {
  const usage = createUsage();
  for (const event of events) usage.add(event);
  return usage.total();
}

suite('what a call cost', () => {
  test('counts an answer that is repaired, and each failed request as a call', async (t) => {
    const { client, events } = await startScene(t, [
      failure.ollamaCrash,
      chat.ollama('nonsense'),
      chat.ollama(FLAT),
    ]);
    const { usage } = await ask(client);
    assert.deepEqual(usage, { calls: 3, inputTokens: 52, outputTokens: 18 });
    assert.deepEqual(summed(events), usage);
  });

  test('is told request by request to whoever makes the call, also when it fails', async (t) => {
    const { client, events } = await startScene(t, [chat.ollama('nonsense')]);
    const own: ModelCallEvent[] = [];
    const question = { ...flatAnswer, system: 'Read.', data: null };
    await failsWith(
      client.generateObject({ ...question, operation: 'extract', observe: (e) => own.push(e) }),
      'MODEL_INVALID_OUTPUT',
    );
    assert.deepEqual(summed(own), { calls: 2, inputTokens: 52, outputTokens: 18 });
    assert.deepEqual(own, events);
  });

  test('of embeddings is told too', async (t) => {
    const { client } = await startScene(t, [failure.ollamaCrash, embeddings([[1, 2, 3]])]);
    const own: ModelCallEvent[] = [];
    await client.embed(['a'], { observe: (event) => own.push(event) });
    assert.deepEqual(
      own.map(({ outcome, inputTokens }) => [outcome, inputTokens]),
      [
        ['MODEL_UNAVAILABLE', null],
        ['ok', 8],
      ],
    );
  });

  test('of a call that the breaker refused is nothing', async (t) => {
    const { client, events } = await startScene(t, [failure.ollamaCrash], {
      breaker: { failures: 1 },
    });
    await failsWith(ask(client), 'MODEL_BREAKER_OPEN');
    assert.equal(events.length, 1);
  });
});
