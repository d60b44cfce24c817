import assert from 'node:assert/strict';
import { once } from 'node:events';
import { connect } from 'node:net';
import { setImmediate as turn } from 'node:timers/promises';
import { test } from 'node:test';
import { modelOf, openSearch } from './harness.ts';

const { serve } = await openSearch();
const KINDS = ['similar', 'hybrid'] as const;

/** A model that answers when it is told to, as one on another machine does. */
function slowModel() {
  const { embed } = modelOf({ тиша: [1, 0, 0] });
  const asked = Promise.withResolvers<AbortSignal | undefined>();
  const answering = Promise.withResolvers<void>();
  return {
    asked: asked.promise,
    answer: answering.resolve,
    giveUp: answering.reject,
    model: {
      embed: async (...call: Parameters<typeof embed>) => {
        asked.resolve(call[1]?.signal);
        await answering.promise;
        return embed(...call);
      },
    },
  };
}

for (const kind of KINDS) {
  test(`${kind}: while whoever asked waits, the model is not given up`, async () => {
    const { model, asked, answer } = slowModel();
    const { listen } = await serve({ model });
    const response = fetch(`${await listen()}/search/${kind}`, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify({ query: 'тиша' }),
    });
    const signal = await asked;
    // The request's own end is told of in one of the next turns.
    for (let turns = 0; turns < 10; turns += 1) await turn();
    assert.equal(signal?.aborted, false);
    answer();
    assert.equal((await response).status, 200);
    assert.equal(signal.aborted, false);
  });

  test(`${kind}: when whoever asked hangs up, the model is given up`, async () => {
    const { model, asked, giveUp } = slowModel();
    const { listen } = await serve({ model });
    const { hostname, port } = new URL(await listen());
    const body = JSON.stringify({ query: 'тиша' });
    const socket = connect(Number(port), hostname);
    socket.write(
      `POST /search/${kind} HTTP/1.1\r\nHost: test\r\nContent-Type: application/json\r\n` +
        `Content-Length: ${Buffer.byteLength(body)}\r\n\r\n${body}`,
    );
    const signal = await asked;
    assert.ok(signal);
    const given = once(signal, 'abort', { signal: AbortSignal.timeout(10_000) });
    socket.destroy();
    await given;
    giveUp(new Error('Nobody waits'));
  });
}
