import assert from 'node:assert/strict';
import { once } from 'node:events';
import type { ServerResponse } from 'node:http';
import { test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { streamed } from '../../src/testing.ts';
import { createTransport } from '../../src/transport/transport.ts';
import { startScriptedServer } from '../scripted-server.ts';
import { failsWith } from '../test-client.ts';

const variables = { baseUrl: 'MODEL_BASE_URL', apiKey: 'MODEL_API_KEY' };
const MIB = 1024 * 1024;

test('an answer of more than 16 MiB is refused and the connection is dropped', async (t) => {
  const server = await startScriptedServer(t, { body: 'x'.repeat(17 * MIB) });
  const transport = createTransport({ apiKey: undefined, variables });
  t.after(transport.close);
  const error = await failsWith(transport.fetch(server.baseUrl), 'MODEL_INVALID_OUTPUT');
  assert.match(error.message, /larger than 16 MiB/);
});

test('an answer of exactly 16 MiB is read', async (t) => {
  const server = await startScriptedServer(t, { body: 'x'.repeat(16 * MIB) });
  const transport = createTransport({ apiKey: undefined, variables });
  t.after(transport.close);
  const response = await transport.fetch(server.baseUrl);
  assert.equal((await response.text()).length, 16 * MIB);
});

/** An answer that is written as its reader takes it, in blocks of a MiB that each have their number. */
function streamOf(blocks: number) {
  const written: number[] = [];
  const answer = streamed(
    Array.from({ length: blocks }, (_, nth) => async (response: ServerResponse) => {
      written.push(nth);
      if (!response.write(Buffer.alloc(MIB, nth))) await once(response, 'drain').catch(() => {});
    }),
  );
  return { answer, written };
}

test('a streamed answer of more than 16 MiB is refused, and what came before is given', async (t) => {
  const server = await startScriptedServer(t, streamOf(17).answer);
  const transport = createTransport({ apiKey: undefined, variables });
  t.after(transport.close);
  const { body } = await transport.fetch(server.baseUrl);
  let size = 0;
  const reading = (async () => {
    for await (const part of body ?? []) size += part.length;
  })();
  const error = await failsWith(reading, 'MODEL_INVALID_OUTPUT');
  assert.match(error.message, /larger than 16 MiB/);
  assert.ok(size > 0 && size <= 16 * MIB, `${size}`);
});

test('a streamed answer comes whole and in order, no faster than it is read', async (t) => {
  const { answer, written } = streamOf(15);
  const server = await startScriptedServer(t, answer);
  const transport = createTransport({ apiKey: undefined, variables });
  t.after(transport.close);
  const { body } = await transport.fetch(server.baseUrl);
  const reader = body?.getReader();
  const first = await reader?.read();
  // What a system holds between two ends of a connection is some MiB.
  let before = -1;
  while (before < written.length) {
    before = written.length;
    await sleep(100);
  }
  assert.ok(written.length < 15, `${written.length} of 15 were written`);
  const parts = [first?.value ?? Buffer.alloc(0)];
  for (let next = await reader?.read(); next?.done === false; next = await reader?.read()) {
    parts.push(next.value);
  }
  const whole = Buffer.concat(parts);
  const blocks = Array.from({ length: 15 }, (_, nth) => Buffer.alloc(MIB, nth));
  assert.ok(whole.subarray(0, 15 * MIB).equals(Buffer.concat(blocks)));
});

test('a huge error is an error of its status', async (t) => {
  const server = await startScriptedServer(t, { status: 500, body: `<p>${'x'.repeat(17 * MIB)}` });
  const transport = createTransport({ apiKey: undefined, variables });
  t.after(transport.close);
  const error = await failsWith(transport.fetch(server.baseUrl), 'MODEL_UNAVAILABLE');
  assert.equal(error.status, 500);
  assert.ok(error.message.length < 400);
});

test('redirects are not followed', async (t) => {
  const target = await startScriptedServer(t, { body: {} });
  const server = await startScriptedServer(t, {
    status: 302,
    headers: { location: target.baseUrl },
    body: '',
  });
  const transport = createTransport({ apiKey: 'sk-test', variables });
  t.after(transport.close);
  await failsWith(transport.fetch(server.baseUrl), 'MODEL_REJECTED');
  assert.equal(target.requests.length, 0);
});

test('an aborted signal throws its reason as it is', async (t) => {
  const server = await startScriptedServer(t, 'silence');
  const transport = createTransport({ apiKey: undefined, variables });
  t.after(transport.close);
  const controller = new AbortController();
  const call = transport.fetch(server.baseUrl, { signal: controller.signal });
  await t.waitFor(() => assert.equal(server.requests.length, 1));
  const reason = new Error('enough');
  controller.abort(reason);
  await assert.rejects(call, (error) => error === reason);
});

test('a body that is no text is refused', async (t) => {
  const transport = createTransport({ apiKey: undefined, variables });
  t.after(transport.close);
  const body = new Uint8Array([1]);
  const error = await failsWith(
    transport.fetch('http://127.0.0.1:1', { method: 'POST', body }),
    'MODEL_UNREACHABLE',
  );
  assert.match(String(error.cause), /texts only/);
});
