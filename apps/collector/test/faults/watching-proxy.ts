import { once } from 'node:events';
import { type AddressInfo, connect, createServer, type Socket } from 'node:net';

/** A moment in a conversation with the database. */
export type Moment = {
  /** A part of the statement's text. */
  statement: string;
  /** Whether the server has not got it yet, or has carried it out and the client has not heard of it. */
  when: 'before' | 'after';
  /** The how many-th of these statements it is. */
  nth: number;
};

/**
 * Passes connections to PostgreSQL on until the moment comes; then nothing passes any more, and
 * `onMoment` is called.
 */
export async function startWatchingProxy(target: URL, moment: Moment, onMoment: () => void) {
  const sockets = new Set<Socket>();
  let seen = 0;
  let over = false;

  function end(): void {
    if (over) return;
    over = true;
    onMoment();
  }

  const proxy = createServer((near) => {
    const far = connect(Number(target.port || 5432), target.hostname);
    let awaited = false;
    near.on('data', (chunk) => {
      if (chunk.includes(moment.statement)) seen += 1;
      const isIt = seen >= moment.nth && chunk.includes(moment.statement);
      if (isIt && moment.when === 'before') end();
      if (over) return;
      awaited ||= isIt;
      far.write(chunk);
    });
    far.on('data', (chunk) => {
      if (awaited) end();
      if (!over) near.write(chunk);
    });
    for (const [socket, other] of [
      [near, far],
      [far, near],
    ] as const) {
      sockets.add(socket);
      socket.on('error', () => undefined);
      socket.on('close', () => {
        sockets.delete(socket);
        other.destroy();
      });
    }
  });
  proxy.listen(0, '127.0.0.1');
  await once(proxy, 'listening');
  const url = new URL(target);
  url.hostname = '127.0.0.1';
  url.port = String((proxy.address() as AddressInfo).port);
  return {
    url: url.href,
    async close() {
      for (const socket of sockets) socket.destroy();
      proxy.close();
      await once(proxy, 'close');
    },
  };
}
