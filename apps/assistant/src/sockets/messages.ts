import { type MessageTypes, publicMessage } from './message-type.ts';

/** The messages that are about the connection itself. Contract 3, WebSocket. */
export const connectionMessages = {
  ping: publicMessage({}, ({ answer }) => answer({ type: 'pong' })),
} satisfies MessageTypes;
