import { signIn, startAssistants } from '../auth/assistant.ts';
import { mapUsers } from '../auth/users.ts';
import { type RemoteProcess, startProcess } from '../process/parent.ts';
import type { Server } from '../process/server.ts';
import type { Context } from '../suite.ts';
import type { SocketEndpoint } from './client.ts';
import type { RelaySettings } from './servers/relay.ts';

/** Servers that relay the model's answers: the assistant, and a minimal relay. */
export const VARIANTS = ['assistant', 'relay'] as const;
export type VariantName = (typeof VARIANTS)[number];

/** Number of open sockets per user. */
const SOCKETS_PER_USER = 4;

const RELAY_MODULE = new URL('servers/relay.ts', import.meta.url);

type VariantSetup = Pick<Context, 'databases' | 'signal'> & { sockets: number; modelUrl: string };

/**
 * Starts the server of a variant.
 * @param scope Stops the server when it is disposed.
 * @returns The server's process and an endpoint for each socket.
 */
export async function startVariant(
  name: VariantName,
  scope: AsyncDisposableStack,
  setup: VariantSetup,
): Promise<{ server: RemoteProcess<Server<never>>; endpoints: SocketEndpoint[] }> {
  return name === 'assistant' ? startAssistant(scope, setup) : startRelay(scope, setup);
}

async function startAssistant(
  scope: AsyncDisposableStack,
  { databases, signal, sockets, modelUrl }: VariantSetup,
): Promise<{ server: RemoteProcess<Server<never>>; endpoints: SocketEndpoint[] }> {
  const database = scope.use(await databases.createDatabase());
  const { servers } = await startAssistants(
    scope,
    { databaseUrl: database.url, signal },
    {
      providerMs: 0,
      userMaxAgeSeconds: 30,
      env: {
        MODEL_MODE: 'openai',
        MODEL_BASE_URL: modelUrl,
        MODEL_CHAT: 'scripted',
        SOCKETS_PER_ADDRESS: String(2 * sockets),
      },
    },
  );
  const [server] = servers;
  if (server === undefined) throw new Error('The assistant has no process');
  const { url, process } = server;
  const cookies = await mapUsers(Math.ceil(sockets / SOCKETS_PER_USER), (index) =>
    signIn(url, index),
  );
  // Users alternate, so that the first sockets, which send messages, belong to different users.
  const endpoints = Array.from({ length: sockets }, (_, index) => ({
    url,
    cookie: cookies[index % cookies.length],
  }));
  return { server: process, endpoints };
}

async function startRelay(
  scope: AsyncDisposableStack,
  { signal, sockets, modelUrl }: VariantSetup,
): Promise<{ server: RemoteProcess<Server<never>>; endpoints: SocketEndpoint[] }> {
  const server = scope.use(startProcess<Server<RelaySettings>>(RELAY_MODULE, signal));
  const url = await server.call('start', { modelUrl });
  return { server, endpoints: Array.from({ length: sockets }, () => ({ url, cookie: undefined })) };
}

/** Arrival patterns of concurrent messages. */
export const ARRIVALS = ['within a second', 'all at once'] as const;
export type Arrival = (typeof ARRIVALS)[number];

/** Time over which the messages are spread, in milliseconds. */
export const withinMs: Record<Arrival, number> = { 'within a second': 1000, 'all at once': 0 };
