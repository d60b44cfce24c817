import assert from 'node:assert/strict';
import { EventEmitter } from 'node:events';
import { after, test } from 'node:test';
import { createListener, type ListenerClient } from '../src/listener.ts';

/** A connection that does what it is told: it can refuse, and it can die without a word. */
class ScriptedClient extends EventEmitter {
  static readonly made: ScriptedClient[] = [];
  static refuses = false;
  isSilent = false;
  isEnded = false;
  readonly queries: string[] = [];

  async connect(): Promise<void> {
    if (ScriptedClient.refuses) throw new Error('refused');
    ScriptedClient.made.push(this);
  }

  async query(text: string): Promise<void> {
    this.queries.push(text);
    if (this.isSilent) await new Promise(() => undefined);
  }

  async end(): Promise<void> {
    this.isEnded = true;
  }
}

function start(checkIntervalMs?: number) {
  ScriptedClient.made.length = 0;
  ScriptedClient.refuses = false;
  const errors: string[] = [];
  const listener = createListener({
    // Of a real client's overloads, a listener uses those that are scripted.
    createClient: () => new ScriptedClient() as unknown as ListenerClient,
    onError: (error) => errors.push(error.message),
    ...(checkIntervalMs === undefined ? {} : { checkIntervalMs }),
  });
  after(() => listener.close());
  return { listener, errors, clients: ScriptedClient.made };
}

const open = (clients: ScriptedClient[]) => clients.filter((client) => !client.isEnded);

test('a silently dead connection is detected and renewed', async () => {
  const { listener, clients } = start(20);
  const renewed = Promise.withResolvers<string>();
  await listener.listen('jobs', renewed.resolve);
  assert.equal(clients.length, 1);
  if (clients[0]) clients[0].isSilent = true;

  assert.equal(await renewed.promise, '');
  assert.deepEqual(clients[1]?.queries[0], 'listen "jobs"');
  assert.equal(open(clients).length, 1);
});

test('a channel added while the connection is renewed opens no second one', async () => {
  const { listener, clients } = start();
  const renewed = Promise.withResolvers<string>();
  await listener.listen('jobs', renewed.resolve);
  clients[0]?.emit('error', new Error('reset'));
  await listener.listen('users', () => undefined);

  await renewed.promise;
  assert.equal(clients.length, 2);
  assert.equal(open(clients).length, 1);
});
