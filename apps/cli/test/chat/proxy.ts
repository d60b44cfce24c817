import { once } from 'node:events';
import { type AddressInfo, connect, createServer, type Socket } from 'node:net';
import { after } from 'node:test';

/** A way to a server of this machine that can be cut off, or be as silent as a process that is stopped. */
export async function startProxy(target: string) {
  const open = new Set<Socket>();
  let isFrozen = false;
  const server = createServer((near) => {
    const far = connect(Number(new URL(target).port), '127.0.0.1');
    for (const socket of [near, far]) {
      open.add(socket);
      // The other end is told by what follows.
      socket.on('error', () => undefined);
      socket.on('close', () => {
        open.delete(socket);
        near.destroy();
        far.destroy();
      });
    }
    near.pipe(far).pipe(near);
    if (isFrozen) near.pause();
  });
  /** Lets nothing pass, or lets it pass again; connections are taken all the same. */
  const freeze = (isFreezing: boolean) => {
    isFrozen = isFreezing;
    for (const socket of open) {
      if (isFreezing) socket.pause();
      else socket.resume();
    }
  };
  /** Breaks every connection there is; new ones are made. */
  const cut = () => {
    for (const socket of open) socket.destroy();
  };
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  after(() => {
    server.close();
    cut();
  });
  return { url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`, cut, freeze };
}
