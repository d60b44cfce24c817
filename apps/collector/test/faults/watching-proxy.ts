import { once } from 'node:events';
import { connect, createServer, type AddressInfo, type Socket } from 'node:net';

/** A moment of a statement. */
export type Moment = {
  /** A part of the statement's text. */
  statement: string;
  /** Before the server receives it, or before the client receives its result. */
  when: 'before' | 'after';
  /** The ordinal number among these statements. */
  nth: number;
};

/**
 * A proxy for PostgreSQL that silences the open connections at a moment
 * and calls `onMoment` once. Later connections work.
 */
export async function startWatchingProxy(
  target: URL,
  moment: Moment,
  onMoment: (proxy: { cut: () => void }) => void,
) {
  const sockets = new Set<Socket>();
  let seen = 0;
  let isPast = false;

  function end(): void {
    isPast = true;
    onMoment({ cut });
  }

  /** Resets open connections on both sides. */
  function cut(): void {
    for (const socket of sockets) socket.resetAndDestroy();
  }

  const proxy = createServer((near) => {
    const far = connect(Number(target.port || 5432), target.hostname);
    const isLate = isPast;
    let hasUnfinishedPayload = false;
    const passes = () => isLate || !isPast;
    near.on('data', (chunk) => {
      const isIt = passes() && !isLate && chunk.includes(moment.statement);
      if (isIt) seen += 1;
      if (isIt && seen === moment.nth && moment.when === 'before') end();
      if (!passes()) return;
      hasUnfinishedPayload ||= isIt && seen === moment.nth;
      far.write(chunk);
    });
    far.on('data', (chunk) => {
      if (hasUnfinishedPayload && passes()) end();
      if (passes()) near.write(chunk);
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

/** Parts of the statements of the stages and the queue. */
export const STATEMENTS = {
  claim: 'with recursive',
  load: 'as "completedHash"',
  upsert: 'insert into property_listings',
  'snapshot, reading': 'from listing_snapshots',
  'snapshot, writing': 'insert into listing_snapshots',
  'images, reading': 'from "listing_images" where "listing_id"',
  'images, writing': 'insert into listing_images',
  'images, describing': 'update images set description',
  'enrich, reading': 'from "listing_images" left join',
  'enrich, writing': "::bigint, 'images', ",
  'embed, writing': 'embedding_text_hash = $',
  finish: 'set completed_hash = ',
};
