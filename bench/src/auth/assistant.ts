import { randomBytes } from 'node:crypto';
import { type RemoteProcess, startProcess } from '../process/parent.ts';
import type { Server } from '../process/server.ts';
import type { VariantSetup, Variant } from '../load/variant.ts';
import { Browser, mapUsers, createUser } from './users.ts';
import type { AssistantSettings } from './servers/assistant.ts';
import type { Provider } from './servers/provider.ts';

export type AssistantSetup = {
  /** Response time of the identity provider. */
  providerMs: number;
  /** Value of IDP_USER_MAX_AGE_SECONDS. */
  userMaxAgeSeconds: number;
  /** Lifetime of the access tokens from sign-ins; an hour by default. */
  firstTokenSeconds?: number;
  /** Number of processes that share the database; one by default. */
  processes?: number;
  /** Additional environment variables. */
  env?: Readonly<Record<string, string>>;
};

/** Assistant processes that share a database, and their identity provider. */
export type Assistants = {
  servers: { url: string; process: RemoteProcess<Server<AssistantSettings>> }[];
  provider: RemoteProcess<Provider>;
};

const ASSISTANT_MODULE = new URL('servers/assistant.ts', import.meta.url);
const PROVIDER_MODULE = new URL('servers/provider.ts', import.meta.url);
const CLIENT = { id: 'oselya', secret: 'the secret of the benchmark' };

/**
 * Starts the assistant with a separate identity provider.
 * @param scope Stops all processes when it is disposed.
 * @returns The processes and their URLs.
 */
export async function startAssistants(
  scope: AsyncDisposableStack,
  { databaseUrl, signal }: Pick<VariantSetup, 'databaseUrl' | 'signal'>,
  {
    providerMs,
    userMaxAgeSeconds,
    firstTokenSeconds = 3600,
    processes = 1,
    env: additionalEnv = {},
  }: AssistantSetup,
): Promise<Assistants> {
  const provider = scope.use(startProcess<Provider>(PROVIDER_MODULE, signal));
  const settings = { clientId: CLIENT.id, answerMs: providerMs, firstTokenSeconds };
  const env = {
    BASE_URL: 'https://assistant.example.test',
    IDP_BASE_URL: await provider.call('start', settings),
    IDP_CLIENT_ID: CLIENT.id,
    IDP_CLIENT_SECRET: CLIENT.secret,
    IDP_USER_MAX_AGE_SECONDS: String(userMaxAgeSeconds),
    SVC_AUTH_COOKIE_SECURE: 'true',
    SVC_AUTH_ENCRYPTION_KEY: randomBytes(32).toString('base64url'),
    ...additionalEnv,
  };
  const servers: Assistants['servers'] = [];
  while (servers.length < processes) {
    const process = scope.use(startProcess<Server<AssistantSettings>>(ASSISTANT_MODULE, signal));
    servers.push({ url: await process.call('start', { databaseUrl, env }), process });
  }
  return { servers, provider };
}

/**
 * Signs in the user at the given index, as a browser would.
 * @returns The value of the `Cookie` header.
 */
export async function signIn(url: string, index: number): Promise<string> {
  const browser = new Browser(url);
  const loginResponse = await browser.request('/auth/login');
  // The `account` parameter replaces the choice of an account on the provider's page.
  const authorize = new URL(loginResponse.headers.get('location') ?? '');
  authorize.searchParams.set('account', String(index));
  const authorizeResponse = await fetch(authorize, { redirect: 'manual' });
  await authorizeResponse.body?.cancel();
  const callback = new URL(authorizeResponse.headers.get('location') ?? '');
  await browser.request(callback.pathname + callback.search);
  return browser.cookie;
}

/** Returns a variant that measures `GET /auth/me` for users who signed in through the provider. */
export function assistantVariant(setup: AssistantSetup): Variant {
  const { userMaxAgeSeconds, providerMs } = setup;
  return {
    name: `assistant, age ${userMaxAgeSeconds} s, provider ${providerMs} ms`,
    async start({ users, ...connection }) {
      await using scope = new AsyncDisposableStack();
      const { servers, provider } = await startAssistants(scope, connection, setup);
      const [server] = servers;
      if (server === undefined) throw new Error('The assistant has no process');
      const { url, process } = server;
      const targets = await mapUsers(users, async (index) => ({
        path: '/auth/me',
        headers: { cookie: await signIn(url, index) },
        expected: createUser(index).email,
      }));
      const resources = scope.move();
      return {
        url,
        targets: () => Promise.resolve(targets),
        async counters() {
          const { code, refresh, userinfo } = await provider.call('counts');
          return { cpuMs: await process.call('cpuMs'), calls: code + refresh + userinfo };
        },
        [Symbol.asyncDispose]: () => resources.disposeAsync(),
      };
    },
  };
}
