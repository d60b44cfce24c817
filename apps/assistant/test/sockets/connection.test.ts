import assert from 'node:assert/strict';
import { test } from 'node:test';
import { queryObjects } from 'node:v8';
import { SocketClient } from '../helpers/socket-client.ts';
import { openSockets, ping, telling } from '../helpers/sockets.ts';
import { until } from '../helpers/until.ts';

/** More than the buffers of any system hold between two ends of a connection. */
const LONG = 'x'.repeat(24 * 1024 * 1024);

test('nothing is kept of a message that has been answered, however long its socket lives', async () => {
  const { url } = await openSockets({ types: { ping }, limits: { messagesPerMinute: 1000 } });
  const client = await SocketClient.open(url);
  /** In parts, as no more may wait. */
  async function sendParts(count: number) {
    for (let part = 0; part < count; part += 1) {
      const answered = client.frames.length + 30;
      for (let sent = 0; sent < 30; sent += 1) client.send({ type: 'ping' });
      await until(() => client.frames.length === answered);
    }
  }
  await sendParts(2);
  const before = queryObjects(Promise, { format: 'count' });
  await sendParts(10);
  const kept = queryObjects(Promise, { format: 'count' }) - before;
  assert.ok(kept < 100, `${kept} promises are kept of 300 messages`);
});

test('a message that waits for the one before it to be read ends with its socket', async () => {
  const { app, url, registry } = await openSockets({
    types: { long: telling(LONG), ping },
    // The end is not waited for as long as this.
    limits: { shutdownMs: 600_000, closeTimeoutMs: 600_000 },
  });
  const client = await SocketClient.open(url);
  client.socket.pause();
  client.send({ type: 'long' });
  client.send({ type: 'ping' });
  await until(async () => (await registry.metrics()).includes('{type="long",outcome="ok"} 1'));
  let isOver = false;
  const closing = app.close().finally(() => {
    isOver = true;
  });
  client.socket.terminate();
  await until(() => isOver);
  await closing;
});
