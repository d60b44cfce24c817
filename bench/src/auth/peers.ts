import type { Running, Target, Variant, VariantSetup } from '../load/variant.ts';
import { startProcess } from '../process/parent.ts';
import type { Server } from '../process/server.ts';
import type { PeerSettings } from './servers/peers.ts';
import { Browser, createUser, mapUsers } from './users.ts';

const BETTER_AUTH_URL = 'https://better-auth.example.test';
const BETTER_AUTH_PATH = '/api/auth/get-session';

/** Fastify with a constant response after one query by primary key. Its speed is the upper bound. */
export const constant: Variant = {
  name: 'constant after one select',
  start: (setup) =>
    startPeer({ peer: 'constant', users: setup.users }, setup, () => {
      const targets = Array.from({ length: setup.users }, (_, index) => ({
        path: `/users/${createUser(index).id}`,
        headers: {},
        expected: createUser(0).email,
      }));
      return Promise.resolve(() => Promise.resolve(targets));
    }),
};

/** Route that returns the user of an `@fastify/session` session stored in PostgreSQL. */
export const fastifySession: Variant = {
  name: '@fastify/session',
  start: (setup) =>
    startPeer({ peer: 'fastifySession' }, setup, async (url) => {
      const targets = await mapUsers(setup.users, (index) => signIn(url, index));
      return () => Promise.resolve(targets);
    }),
};

/** Returns a variant that measures better-auth's session check for users who signed up. */
export function betterAuth(
  name: string,
  options: { hasJoins: boolean; hasCookieCache: boolean },
): Variant {
  const settings = { peer: 'betterAuth', baseUrl: BETTER_AUTH_URL, ...options } as const;
  return {
    name,
    start: (setup) =>
      startPeer(settings, setup, async (url) => {
        const browsers = await mapUsers(setup.users, (index) => signUp(url, index));
        return async () => {
          if (options.hasCookieCache) await Promise.all(browsers.map(renewCache));
          return browsers.map(({ cookie }, index) => ({
            path: BETTER_AUTH_PATH,
            headers: { cookie },
            expected: createUser(index).email,
          }));
        };
      }),
  };
}

/** Starts a peer in a separate process and signs users in. Peers call no other service, so `calls` stays 0. */
async function startPeer(
  settings: PeerSettings,
  { databaseUrl, signal }: VariantSetup,
  signInUsers: (url: string) => Promise<Running['targets']>,
): Promise<Running> {
  await using scope = new AsyncDisposableStack();
  const module = new URL('servers/peers.ts', import.meta.url);
  const process = scope.use(
    startProcess<Server<PeerSettings & { databaseUrl: string }>>(module, signal),
  );
  const url = await process.call('start', { ...settings, databaseUrl });
  const targets = await signInUsers(url);
  const resources = scope.move();
  return {
    url,
    targets,
    counters: async () => ({ cpuMs: await process.call('cpuMs'), calls: 0 }),
    [Symbol.asyncDispose]: () => resources.disposeAsync(),
  };
}

async function signIn(url: string, index: number): Promise<Target> {
  const browser = new Browser(url);
  // Imitates a proxy that terminates TLS, because secure cookies require HTTPS.
  const headers = { 'x-forwarded-proto': 'https' };
  await browser.request(`/sign-in/${index}`, { method: 'POST', headers });
  return { path: '/me', headers: { cookie: browser.cookie }, expected: createUser(index).email };
}

async function signUp(url: string, index: number): Promise<Browser> {
  const { email, name } = createUser(index);
  const browser = new Browser(url);
  await browser.request('/api/auth/sign-up/email', {
    method: 'POST',
    headers: { 'content-type': 'application/json', origin: BETTER_AUTH_URL },
    body: JSON.stringify({ email, name, password: `password of ${email}` }),
  });
  return browser;
}

/** Renews the cookie that caches the session, because it expires after five minutes. */
async function renewCache(browser: Browser): Promise<void> {
  browser.deleteCookies('session_data');
  await browser.request(BETTER_AUTH_PATH);
}
