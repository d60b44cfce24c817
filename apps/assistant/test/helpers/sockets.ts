import cookie from '@fastify/cookie';
import { after } from 'node:test';
import { setImmediate } from 'node:timers/promises';
import { createLogger, createServer } from '@oselya/kit';
import { Registry } from 'prom-client';
import { guardRoutes } from '../../src/access/guards.ts';
import type { User } from '../../src/access/permissions.ts';
import { clientMessages } from '@oselya/protocol';
import type { ResolveSession } from '../../src/identity/current-user.ts';
import { type MessageType, defineMessage } from '../../src/conversations/dispatch.ts';
import { isSocketHandshake, registerSocketRoutes } from '../../src/conversations/socket-routes.ts';
import {
  createSocketRegistry,
  type SocketLimits,
  socketLimits,
} from '../../src/conversations/socket.ts';

/**
 * Scripted auth sessions. An ID that is not in `users` is unknown. If `failure` is set, `findActive` and each
 * resolution without a known user throw it.
 */
export class ScriptedIdentity {
  readonly users = new Map<string, User>();
  failure: Error | undefined;
  resolutions = 0;
  /** Highest number of concurrent resolutions. */
  maxConcurrency = 0;
  private concurrentCount = 0;

  /** Resolves the user of a session. Returns a known user unchanged while the session exists. */
  readonly resolve: ResolveSession = async (sessionId, knownUser) => {
    if (knownUser !== undefined) {
      return this.users.has(sessionId)
        ? { status: 'signed-in', ...knownUser }
        : { status: 'unknown' };
    }
    this.resolutions += 1;
    this.concurrentCount += 1;
    this.maxConcurrency = Math.max(this.maxConcurrency, this.concurrentCount);
    const user = this.users.get(sessionId);
    await setImmediate();
    this.concurrentCount -= 1;
    if (this.failure !== undefined) throw this.failure;
    return user === undefined
      ? { status: 'unknown' }
      : { status: 'signed-in', user, generation: 0 };
  };

  readonly findActive = async (ids: readonly string[]): Promise<ReadonlySet<string>> => {
    if (this.failure !== undefined) throw this.failure;
    return new Set(ids.filter((id) => this.users.has(id)));
  };
}

/** Returns a well-formed session ID. */
export const createSessionId = (character: string) => character.repeat(43);

/** Starts a server for sockets, with scripted users and messages. */
export async function openSockets({
  types = {},
  limits = {},
  caps = {},
}: {
  types?: Record<string, MessageType>;
  limits?: Partial<SocketLimits>;
  caps?: { perUser?: number; perAddress?: number };
} = {}) {
  const identity = new ScriptedIdentity();
  const lines: string[] = [];
  const log = createLogger({
    level: 'trace',
    service: 'test',
    destination: { write: (line) => lines.push(line) },
  });
  const registry = new Registry();
  const allLimits = { ...socketLimits, ...limits };
  const sockets = createSocketRegistry({
    identity,
    types,
    caps: { perUser: 20, perAddress: 1000, ...caps },
    limits: allLimits,
    registry,
    log,
  });
  const app = await createServer({
    log,
    bodyLimit: 1000,
    openapi: {
      title: 'Test',
      description: 'A test.',
      version: '1',
      securitySchemes: {
        session: {
          type: 'apiKey',
          in: 'cookie',
          name: 'svc_auth_session',
          description: 'A session.',
        },
      },
    },
    acceptsUpgrade: isSocketHandshake,
    // Lets tests choose the client address in a header.
    trustedProxies: ['127.0.0.1'],
  });
  await app.register(cookie);
  guardRoutes(app, {
    baseUrl: 'https://assistant.test',
    hasSession: () => false,
    resolveUser: () => Promise.resolve(undefined),
  });
  app.post('/echo', { config: { access: 'public' } }, ({ body }) => ({ body }));
  type CookieRequest = { cookies: Record<string, string | undefined> };
  const readCookie = ({ cookies }: CookieRequest) => cookies['svc_auth_session'];
  await registerSocketRoutes(app, {
    sockets,
    cookies: {
      hasSession: (request: CookieRequest) => readCookie(request) !== undefined,
      sessionId(request: CookieRequest) {
        const value = readCookie(request);
        return value?.length === 43 ? value : null;
      },
    },
    listen: () => Promise.resolve(() => Promise.resolve()),
    baseUrl: 'https://assistant.test',
    limits: allLimits,
  });
  const url = await app.listen({ port: 0, host: '127.0.0.1' });
  after(() => app.close());
  return { app, url, sockets, identity, registry, lines };
}

/** Messages for all clients, for signed-in users, and for admins, each answered with `pong`. */
const { ping: pingDefinition } = clientMessages;
export const pingMessage = defineMessage(pingDefinition, (_, { answer }) =>
  answer({ type: 'pong' }),
);
export const userMessage = defineMessage(
  { ...pingDefinition, access: 'signed-in' },
  (_, { answer }) => answer({ type: 'pong' }),
);
export const adminMessage = defineMessage(
  { ...pingDefinition, access: { role: 'admin' } },
  (_, { answer }) => answer({ type: 'pong' }),
);

/** Creates a message type whose handler waits until the test releases it. */
export function createGatedMessage() {
  const { promise, resolve } = Promise.withResolvers<void>();
  const type = defineMessage(pingDefinition, async (_, { answer }) => {
    await promise;
    answer({ type: 'pong' });
  });
  return { type, release: resolve };
}

/** Handshake headers without `Connection`. RFC 6455 §4.1. */
export const HANDSHAKE = {
  upgrade: 'websocket',
  'sec-websocket-version': '13',
  'sec-websocket-key': 'dGhlIHNhbXBsZSBub25jZQ==',
};
