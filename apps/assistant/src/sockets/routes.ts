import websocket from '@fastify/websocket';
import { isForeignOrigin, onDrain, type Server } from '@oselya/kit';
import { Type } from 'typebox';
import { problem, problemAnswers } from '../errors.ts';
import type { Identity } from '../identity/identity.ts';
import { closings } from './closings.ts';
import { SOCKET_PATH } from './handshake.ts';
import type { SocketLimits } from './limits.ts';
import type { Sockets } from './sockets.ts';

type SocketRouteOptions = {
  sockets: Sockets;
  cookies: Pick<Identity['cookies'], 'hasSession' | 'sessionId'>;
  /** Hears of users who changed, until the returned function is called. */
  listen: (hear: (userId: string) => void) => Promise<() => Promise<void>>;
  /** The public origin, whose pages may connect. */
  baseUrl: string;
  limits: SocketLimits;
};

/** `GET /ws`. Contract 3, WebSocket. */
export async function socketRoutes(
  app: Server,
  { sockets, cookies, listen, baseUrl, limits }: SocketRouteOptions,
): Promise<void> {
  const options = {
    maxPayload: limits.maxMessageBytes,
    // Not in its types; 30 s without it.
    closeTimeout: limits.closeTimeoutMs,
    // No subprotocol is spoken, whatever a client offers.
    handleProtocols: () => false as const,
  };
  onDrain(app, sockets.close);
  // In a scope of its own: the plugin wraps the handler of every route that it sees.
  await app.register(async (scope) => {
    await scope.register(websocket, {
      options,
      errorHandler(error, socket, request) {
        // A frame against the protocol: the library closes the socket with the code that says so.
        request.log.debug({ err: error }, 'socket error');
        socket.close(closings.failed.code, closings.failed.reason);
      },
      preClose: async () => {
        // A handshake of this moment would open a socket that nobody closes.
        scope.server.removeAllListeners('upgrade');
        scope.server.on('upgrade', (_request, socket) => socket.destroy());
        await sockets.close();
      },
    });

    let stopListening: (() => Promise<void>) | undefined;
    scope.addHook('onReady', async () => {
      stopListening = await listen(sockets.hear);
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
          'For pages of this origin and for clients that are no browser; docs/protocol.md describes the messages and close codes. Without a session cookie the socket opens, and can do nothing but `ping`; with one that is not valid it is closed with 4401.',
        security: [{}, { session: [] }],
        response: {
          101: Type.Null({ description: 'The WebSocket is open.' }),
          ...problemAnswers('cross_site_request', 'upgrade_required', 'too_many_connections'),
        },
      },
      // The last step before the socket opens, and without a wait in between: the count is right.
      preHandler(request, _reply, done) {
        if (!request.ws) return done();
        if (isForeignOrigin(request, baseUrl)) {
          const detail = 'Sockets are opened for pages of this service only.';
          return done(problem('cross_site_request', { detail }));
        }
        done(sockets.refusalOf(request.ip));
      },
      handler() {
        throw problem('upgrade_required', {
          // RFC 9110 §15.5.22, RFC 6455 §4.4.
          headers: {
            connection: 'upgrade',
            upgrade: 'websocket',
            'sec-websocket-version': '13',
          },
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
