/** A client of the assistant's WebSocket protocol: docs/protocol.md. */
export type { Arrived } from './arrivals.ts';
export { type ChatClient, openChat } from './client.ts';
export { ChatError, describeClose } from './errors.ts';
export type { Answer, MemoryChange, Message, Session, Tool, TurnEvent } from './frames.ts';
export type { Status } from './link.ts';
export { reconnectDelayMs } from './reconnect.ts';
