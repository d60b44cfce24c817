import { Counter, Gauge, type Registry } from 'prom-client';

/** Figures about sockets. */
export type SocketMetrics = ReturnType<typeof createSocketMetrics>;

/** Codes that clients and the protocol close with; a client can name thousands of others. */
const COMMON_CODES = new Set([1000, 1001, 1002, 1005, 1006, 1007, 1009, 1011, 1012]);
const OWN_CODES = new Set([4401, 4403, 4429]);

/** Makes the metrics of sockets and registers them. */
export function createSocketMetrics(registry: Registry) {
  const registers = [registry];
  const sockets = new Gauge({
    name: 'assistant_sockets',
    help: 'Open sockets, by whether they came with a session cookie.',
    labelNames: ['state'],
    registers,
  });
  const messages = new Counter({
    name: 'assistant_socket_messages_total',
    help: 'Messages of clients, by type and by what came of them: "ok" or the error code.',
    labelNames: ['type', 'outcome'],
    registers,
  });
  const closes = new Counter({
    name: 'assistant_socket_closes_total',
    help: 'Closed sockets, by close code.',
    labelNames: ['code'],
    registers,
  });
  for (const state of ['anonymous', 'signed_in']) sockets.set({ state }, 0);

  return {
    countOpened: (state: 'anonymous' | 'signed_in') => sockets.inc({ state }),
    countClosed(state: 'anonymous' | 'signed_in', code: number): void {
      sockets.dec({ state });
      const isKnown = COMMON_CODES.has(code) || OWN_CODES.has(code);
      closes.inc({ code: isKnown ? String(code) : 'other' });
    },
    /** @param type One of the table's, or `unknown`: what clients send would never stop growing. */
    countMessage: (type: string, outcome: string) => messages.inc({ type, outcome }),
  };
}
