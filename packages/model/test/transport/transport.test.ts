import assert from 'node:assert/strict';
import { test } from 'node:test';
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
