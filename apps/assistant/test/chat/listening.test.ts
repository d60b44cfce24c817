import assert from 'node:assert/strict';
import { test } from 'node:test';
import { createHub } from '../../src/chat/hub.ts';
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

/** A socket that a test closes. */
function openSocket() {
  const works: (() => void)[] = [];
  let isClosed = false;
  const socket: UserSocket = {
    requestId: 'r-1',
    send: () => undefined,
    hold: () => {
      throw new Error('Nothing is held');
    },
    onClose: (work) => (isClosed ? work() : works.push(work)),
  };
  return {
    socket,
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
