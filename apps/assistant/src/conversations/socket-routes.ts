import type { IncomingMessage } from 'node:http';
import websocket from '@fastify/websocket';
import { isForeignOrigin, onDrain, type Server } from '@oselya/kit';
import { closeStatuses } from '@oselya/protocol';
import { Type } from 'typebox';
import { problem, problemResponses } from '../errors.ts';
import type { Identity } from '../identity/identity.ts';
import { SOCKET_PATH } from './asyncapi.ts';
import type { SocketLimits, SocketRegistry } from './socket.ts';

/** Pattern of `Sec-WebSocket-Key`: 16 bytes in base64. RFC 6455 §4.1. */
const SOCKET_KEY_PATTERN = /^[A-Za-z0-9+/]{22}==$/;

/** Returns whether a request is a valid WebSocket handshake for {@link SOCKET_PATH}. RFC 6455 §4.2.1. */
export function isSocketHandshake({ method, url, headers }: IncomingMessage): boolean {
  return (
    method === 'GET' &&
    url?.split('?', 1)[0] === SOCKET_PATH &&
    headers.upgrade?.toLowerCase() === 'websocket' &&
    headers['sec-websocket-version'] === '13' &&
    SOCKET_KEY_PATTERN.test(headers['sec-websocket-key'] ?? '')
  );
}

/** Registers `GET /ws`. Contract 3, WebSocket. */
export async function registerSocketRoutes(
  app: Server,
  {
    sockets,
    cookies,
    listen,
    baseUrl,
    limits,
  }: {
    sockets: SocketRegistry;
    cookies: Pick<Identity['cookies'], 'hasSession' | 'sessionId'>;
    /** Subscribes to notifications about changed users. Resolves to a function that unsubscribes. */
    listen: (onNotify: (userId: string) => void) => Promise<() => Promise<void>>;
    baseUrl: string;
    limits: SocketLimits;
  },
): Promise<void> {
  const options = {
    maxPayload: limits.maxMessageBytes,
    // The type definitions of `ws` lack this option, so TypeScript would reject it in an inline object.
    closeTimeout: limits.closeTimeoutMs,
    handleProtocols: () => false as const,
  };
  onDrain(app, sockets.close);
  // The plugin wraps the handlers of all routes in its scope, so this scope contains only the socket route.
  await app.register(async (scope) => {
    await scope.register(websocket, {
      options,
      errorHandler(error, socket, request) {
        request.log.debug({ err: error }, 'socket error');
        // After a protocol error, the socket is already closing with the library's close code, and this has no effect.
        socket.close(closeStatuses.failed.code, closeStatuses.failed.reason);
      },
      preClose: async () => {
        // Reject new sockets, because nothing would close a socket that opens after this point.
        scope.server.removeAllListeners('upgrade');
        scope.server.on('upgrade', (_request, socket) => socket.destroy());
        await sockets.close();
      },
    });

    let stopListening: (() => Promise<void>) | undefined;
    scope.addHook('onReady', async () => {
      stopListening = await listen(sockets.onNotify);
    });
    scope.addHook('onClose', async () => {
      await stopListening?.();
      sockets.stop();
    });

    scope.route({
      method: 'GET',
      url: SOCKET_PATH,
      config: { access: 'public' },
      exposeHeadRoute: false,
      schema: {
        tags: ['sessions'],
        summary: 'Opens a WebSocket',
        description:
          'The WebSocket is for pages of this origin, and for clients other than browsers; docs/protocol.md describes messages and close codes. Without a session cookie the socket only answers `ping`; with an invalid one it is closed with 4401.',
        security: [{}, { session: [] }],
        response: {
          101: Type.Null({ description: 'The WebSocket is open.' }),
          ...problemResponses('cross_site_request', 'upgrade_required', 'too_many_connections'),
        },
      },
      // The count of sockets is exact, because the check is synchronous and the last step before the socket opens.
      preHandler(request, _reply, done) {
        if (!request.ws) return done();
        if (isForeignOrigin(request, baseUrl)) {
          const detail = 'Sockets are opened for pages of this service only.';
          return done(problem('cross_site_request', { detail }));
        }
        done(sockets.checkAddress(request.ip));
      },
      handler() {
        throw problem('upgrade_required', {
          // RFC 9110 §15.5.22, RFC 6455 §4.4.
          headers: { connection: 'upgrade', upgrade: 'websocket', 'sec-websocket-version': '13' },
        });
      },
      wsHandler(socket, request) {
        sockets.accept(socket, {
          address: request.ip,
          sessionId: cookies.hasSession(request) ? cookies.sessionId(request) : undefined,
          requestId: request.id,
          log: request.log,
        });
      },
    });
  });
}
