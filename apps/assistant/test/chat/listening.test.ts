import assert from 'node:assert/strict';
import { test } from 'node:test';
import { createHub, type Earlier } from '../../src/chat/hub.ts';
import { createListening } from '../../src/chat/listening.ts';
import type { UserSocket } from '../../src/sockets/message-type.ts';

function stage() {
  const hub = createHub();
  const chat: Parameters<typeof createListening>[0] = {
    listen: (sessionId, send) => hub.listen(sessionId, send),
    earlier: () => Promise.resolve(undefined),
  };
  return { hub, listening: createListening(chat) };
}

const key = { turnId: 't-1', sessionId: 's-1', position: 1 };

const part = (seq: number) => ({ type: 'message.delta' as const, text: 'x', seq });

/** All of the turn that was before these events is known. */
const since = (after: number, ...events: ReturnType<typeof part>[]): Earlier => ({
  key,
  after,
  knowsEnd: false,
  events,
});

/** A socket that a test closes, with the numbers of the events that it was sent. */
function openSocket() {
  const works: (() => void)[] = [];
  const told: unknown[] = [];
  let isClosed = false;
  const socket: UserSocket = {
    requestId: 'r-1',
    send: (frame) => told.push('seq' in frame ? frame.seq : frame),
    hold: () => {
      throw new Error('Nothing is held');
    },
    onClose: (work) => (isClosed ? work() : works.push(work)),
  };
  return {
    socket,
    works,
    told,
    close: () => {
      isClosed = true;
      for (const work of works) work();
    },
  };
}

test('a socket that closes listens to nothing any more', () => {
  const { hub, listening } = stage();
  const { socket, close } = openSocket();
  listening.begin(socket, 's-1').listener.begin();
  listening.begin(socket, 's-2').listener.begin();
  assert.equal(hub.size, 2);
  close();
  assert.equal(hub.size, 0);
});

test('nor does one that closed before it began to listen', () => {
  const { hub, listening } = stage();
  const { socket, close } = openSocket();
  listening.begin(socket, 's-1').listener.begin();
  close();
  listening.begin(socket, 's-2').listener.begin();
  listening.begin(socket, 's-1').listener.begin();
  assert.equal(hub.size, 0);
});

test('a socket listens to a hundred sessions at most, and to one as often as it asks', () => {
  const { hub, listening } = stage();
  const { socket } = openSocket();
  for (let nth = 0; nth < 100; nth += 1) listening.begin(socket, `s-${nth}`);
  listening.begin(socket, 's-1');
  assert.equal(hub.size, 100);
  assert.throws(() => listening.begin(socket, 's-100'), { code: 'too_many_open' });
  listening.end(socket, 's-1');
  listening.begin(socket, 's-100');
  assert.equal(hub.size, 100);
});

test('a socket is told once that it has closed, however often it opens sessions', async () => {
  const { hub, listening } = stage();
  const { socket, works, close } = openSocket();
  for (let nth = 0; nth < 3; nth += 1) {
    listening.begin(socket, 's-1').listener.begin();
    await listening.open(socket, 's-1', () => Promise.resolve(undefined));
    await listening.open(socket, 's-2', () => Promise.resolve(undefined));
    listening.end(socket, 's-2');
  }
  assert.equal(works.length, 1);
  assert.equal(hub.size, 1);
  close();
  assert.equal(hub.size, 0);
});

test('what happens while a session is opened again comes once, and after the answer', async () => {
  const { hub, listening } = stage();
  const { socket, told } = openSocket();
  await listening.open(socket, 's-1', () => Promise.resolve(undefined));
  hub.deliver(key, [part(1)]);
  await listening.open(socket, 's-1', async () => {
    hub.deliver(key, [part(2)]);
    await Promise.resolve();
    told.push('opened');
    return since(1, part(2));
  });
  hub.deliver(key, [part(3)]);
  assert.deepEqual(told, [1, 'opened', 2, 3]);
});

test('a turn of a message that came by itself has been told to its end', () => {
  const { hub, listening } = stage();
  const { socket, told } = openSocket();
  listening.begin(socket, 's-1').listener.begin();
  const message = { id: 'a', role: 'assistant', content: 'Нових: 1', created_at: null };
  hub.deliver(key, [{ type: 'message.arrived', message, seq: 1 }]);
  assert.deepEqual(told, [1]);
  assert.equal(hub.hasTold(key), true);
});

test('a session that cannot be opened again is heard as before, without a gap', async () => {
  const { hub, listening } = stage();
  const { socket, told, close } = openSocket();
  await listening.open(socket, 's-1', () => Promise.resolve(undefined));
  hub.deliver(key, [part(1)]);
  const opening = listening.open(socket, 's-1', () => {
    hub.deliver(key, [part(2)]);
    return Promise.reject(new Error('the database does not answer'));
  });
  await assert.rejects(opening, { message: 'the database does not answer' });
  hub.deliver(key, [part(3)]);
  assert.deepEqual(told, [1, 2, 3]);
  close();
  assert.equal(hub.size, 0);
});

test('one that cannot be opened at all is not heard', async () => {
  const { hub, listening } = stage();
  const { socket } = openSocket();
  const opening = listening.open(socket, 's-1', () => Promise.reject(new Error('unreadable')));
  await assert.rejects(opening, { message: 'unreadable' });
  assert.equal(hub.size, 0);
});

for (const outcome of ['succeeds', 'fails'] as const) {
  test(`a socket that closes while it opens a session again, which ${outcome}, hears nothing`, async () => {
    const { hub, listening } = stage();
    const { socket, close } = openSocket();
    await listening.open(socket, 's-1', () => Promise.resolve(undefined));
    const opening = listening.open(socket, 's-1', () => {
      close();
      return outcome === 'fails' ? Promise.reject(new Error('closed')) : Promise.resolve(undefined);
    });
    await Promise.allSettled([opening]);
    assert.equal(hub.size, 0);
  });
}

test('a session that there is no room for is not read', async () => {
  const { listening } = stage();
  const { socket } = openSocket();
  const read: string[] = [];
  const open = (id: string) =>
    listening.open(socket, id, () => {
      read.push(id);
      return Promise.resolve(undefined);
    });
  for (let nth = 0; nth < 100; nth += 1) listening.begin(socket, `s-${nth}`);
  await assert.rejects(open('s-100'), { code: 'too_many_open' });
  await open('s-1');
  assert.deepEqual(read, ['s-1']);
});
