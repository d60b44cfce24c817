import { type AddressInfo, connect, createServer, type Socket } from 'node:net';

/** Passes connections to a server on, until it is told to let those that it has go silent. */
export async function startSilentProxy(target: URL) {
  const sockets = new Set<Socket>();
  const passing = new Set<() => void>();
  const proxy = createServer((near) => {
    const far = connect(Number(target.port || 5432), target.hostname);
    near.pipe(far).pipe(near);
    for (const socket of [near, far]) {
      sockets.add(socket);
      socket.on('error', () => undefined);
      socket.on('close', () => sockets.delete(socket));
    }
    near.on('close', () => far.destroy());
    passing.add(() => {
      near.unpipe(far).resume();
      far.unpipe(near).resume();
    });
  });
  await new Promise<void>((resolve) => {
    proxy.listen(0, '127.0.0.1', resolve);
  });
  const url = new URL(target);
  url.hostname = '127.0.0.1';
  url.port = String((proxy.address() as AddressInfo).port);
  return {
    url: url.href,
    /** Nothing more comes through what is open, and nothing says so; what is opened later works. */
    silence() {
      for (const stop of passing) stop();
      passing.clear();
    },
    async close() {
      for (const socket of sockets) socket.destroy();
      await new Promise((resolve) => {
        proxy.close(resolve);
      });
    },
  };
}
