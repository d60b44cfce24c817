import type { IncomingMessage } from 'node:http';

/** Where sockets are opened. Contract 3, WebSocket. */
export const SOCKET_PATH = '/ws';

/** 16 bytes as base64. RFC 6455 §4.1. */
const KEY = /^[A-Za-z0-9+/]{22}==$/;

/**
 * Whether a request is a well-formed WebSocket handshake for the one path that has sockets. Every other
 * request is answered as HTTP, whatever it would upgrade to. RFC 6455 §4.2.1.
 */
export function isSocketHandshake({ method, url, headers }: IncomingMessage): boolean {
  return (
    method === 'GET' &&
    url?.split('?', 1)[0] === SOCKET_PATH &&
    headers.upgrade?.toLowerCase() === 'websocket' &&
    headers['sec-websocket-version'] === '13' &&
    KEY.test(headers['sec-websocket-key'] ?? '')
  );
}
