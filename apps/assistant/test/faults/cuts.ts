import { once } from 'node:events';
import { type AddressInfo, connect, createServer, type Socket } from 'node:net';
import pg from 'pg';

/** A way to take a server away from its clients, and to give it back. */
export type Cut = {
  /** The address that is cut. */
  url: string;
  away(): Promise<void>;
  back(): Promise<void>;
  close(): Promise<void>;
};

/**
 * Cuts a database as a restart of its server does: it ends all connections and takes no new ones. Other
 * databases of the server, which belong to other tests, notice nothing.
 */
export async function cutAtServer(databaseUrl: string): Promise<Cut> {
  const name = new URL(databaseUrl).pathname.slice(1);
  const elsewhere = new pg.Client({ connectionString: process.env['TEST_DATABASE_URL'] });
  await elsewhere.connect();
  async function back() {
    await elsewhere.query(`alter database ${name} allow_connections true`);
  }
  return {
    url: databaseUrl,
    async away() {
      await elsewhere.query(`alter database ${name} allow_connections false`);
      await elsewhere.query(
        'select pg_terminate_backend(pid) from pg_stat_activity where datname = $1',
        [name],
      );
    },
    back,
    async close() {
      await back();
      await elsewhere.end();
    },
  };
}

/** Cuts the way to a database, or to an assistant: connections break, and nobody listens at its address. */
export async function cutOnTheWay(
  address: string,
): Promise<Cut & { leadTo(address: string): void }> {
  let target = new URL(address);
  const sockets = new Set<Socket>();
  const proxy = createServer((near) => {
    const far = connect(Number(target.port || 5432), target.hostname);
    for (const socket of [near, far]) {
      sockets.add(socket);
      socket.on('error', () => undefined);
      socket.on('close', () => {
        sockets.delete(socket);
        near.destroy();
        far.destroy();
      });
    }
    near.pipe(far).pipe(near);
  });
  proxy.listen(0, '127.0.0.1');
  await once(proxy, 'listening');
  const { port } = proxy.address() as AddressInfo;
  const url = new URL(target);
  url.hostname = '127.0.0.1';
  url.port = String(port);
  async function away() {
    const closed = once(proxy, 'close');
    proxy.close();
    // Without a reset: Node, having reset some at once, now and then never ended (its loop spun at the exit).
    for (const socket of sockets) socket.destroy();
    await closed;
  }
  return {
    url: url.href,
    away,
    /** Has connections that are made from then on lead elsewhere. */
    leadTo(other) {
      target = new URL(other);
    },
    async back() {
      proxy.listen(port, '127.0.0.1');
      await once(proxy, 'listening');
    },
    close: async () => {
      if (proxy.listening) await away();
    },
  };
}
