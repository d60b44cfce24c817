import { signIn, startAssistants } from '../auth/assistant.ts';
import { forUsers } from '../auth/users.ts';
import { type Remote, startProcess } from '../process/parent.ts';
import type { Server } from '../process/server.ts';
import type { Context } from '../suite.ts';
import type { Seat } from './client.ts';
import type { RelaySettings } from './servers/relay.ts';

/** Servers that relay the model's answers: the assistant, and a minimal relay. */
export const VARIANTS = ['assistant', 'relay'] as const;
export type VariantName = (typeof VARIANTS)[number];

/** Number of open sockets of each user. */
const SOCKETS_PER_USER = 4;

const RELAY = new URL('servers/relay.ts', import.meta.url);

type Place = Pick<Context, 'databases' | 'signal'> & { sockets: number; modelUrl: string };

/** Starts a server, which ends with `scope`, and returns the addresses from which sockets connect. */
export async function startVariant(
  name: VariantName,
  scope: AsyncDisposableStack,
  place: Place,
): Promise<{ server: Remote<Server<never>>; seats: Seat[] }> {
  return name === 'assistant' ? startAssistant(scope, place) : startRelay(scope, place);
}

async function startAssistant(
  scope: AsyncDisposableStack,
  { databases, signal, sockets, modelUrl }: Place,
): Promise<{ server: Remote<Server<never>>; seats: Seat[] }> {
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
  if (server === undefined) throw new Error('No process was asked for');
  const { url, process } = server;
  const cookies = await forUsers(Math.ceil(sockets / SOCKETS_PER_USER), (nth) => signIn(url, nth));
  // One socket of each user first, so that speaking sockets belong to different users.
  const seats = Array.from({ length: sockets }, (_, nth) => ({
    url,
    cookie: cookies[nth % cookies.length],
  }));
  return { server: process, seats };
}

async function startRelay(
  scope: AsyncDisposableStack,
  { signal, sockets, modelUrl }: Place,
): Promise<{ server: Remote<Server<never>>; seats: Seat[] }> {
  const server = scope.use(startProcess<Server<RelaySettings>>(RELAY, signal));
  const url = await server.ask('start', { modelUrl });
  return { server, seats: Array.from({ length: sockets }, () => ({ url, cookie: undefined })) };
}
