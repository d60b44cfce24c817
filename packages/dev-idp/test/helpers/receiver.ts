import assert from 'node:assert/strict';
import { createHmac } from 'node:crypto';
import { once } from 'node:events';
import {
  createServer,
  type IncomingHttpHeaders,
  type IncomingMessage,
  type ServerResponse,
} from 'node:http';
import { text } from 'node:stream/consumers';
import type { TestContext } from 'node:test';

/** A webhook as it arrived. */
export type Message = { path: string; headers: IncomingHttpHeaders; body: string };

/** How a receiver answers: with a status, or not at all. */
export type Answer = number | 'never';

/**
 * A receiver on a free port. It answers as the script says, one entry a message, and then with 200.
 * `arrived` resolves when so many messages have.
 */
export async function startReceiver(t: TestContext, script: Answer[] = []) {
  const messages: Message[] = [];
  const waits: { count: number; resolve: () => void }[] = [];
  async function receive(request: IncomingMessage, response: ServerResponse) {
    const answer = script[messages.length] ?? 200;
    const body = await text(request);
    messages.push({ path: request.url ?? '', headers: request.headers, body });
    for (const { count, resolve } of waits) if (messages.length >= count) resolve();
    if (answer === 'never') return;
    response.writeHead(answer, answer === 302 ? { location: '/elsewhere' } : {}).end('ignored');
  }
  const server = createServer((request, response) => void receive(request, response));
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  t.after(() => {
    server.close();
    server.closeAllConnections();
  });
  const address = server.address();
  assert.ok(typeof address === 'object' && address);
  return {
    url: `http://127.0.0.1:${address.port}/webhooks/idp`,
    messages,
    arrived: (count: number) =>
      new Promise<void>((resolve) => {
        if (messages.length >= count) resolve();
        else waits.push({ count, resolve });
      }),
  };
}

/** Checks what the Standard Webhooks specification asks of a message, from its text alone. */
export function assertSigned({ headers, body }: Message, key: Buffer | string): void {
  const [id, timestamp] = [headers['webhook-id'], headers['webhook-timestamp']];
  assert.ok(typeof id === 'string' && /^msg_[\w-]{20,}$/.test(id), String(id));
  assert.ok(typeof timestamp === 'string' && /^\d{10}$/.test(timestamp), String(timestamp));
  const content = `${id}.${timestamp}.${body}`;
  const expected = createHmac('sha256', key).update(content, 'utf8').digest('base64');
  assert.equal(headers['webhook-signature'], `v1,${expected}`);
  assert.equal(headers['content-type'], 'application/json');
}

/** What a message says: its event, and whom it is about. */
export function eventOf({ body }: Message): [event: string, userId: string | undefined] {
  const { event, user_id }: { event: string; user_id?: string } = JSON.parse(body);
  return [event, user_id];
}
