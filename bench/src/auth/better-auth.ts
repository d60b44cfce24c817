import type { Target } from '../load/target.ts';
import type { Variant } from '../load/variant.ts';
import { Browser } from './browser.ts';
import { startPeer } from './peer.ts';
import type { BetterAuthSettings } from './servers/better-auth.ts';
import { mapUsers, createUser } from './users.ts';

const PUBLIC_URL = 'https://better-auth.example.test';
const PATH = '/api/auth/get-session';

/** The session check of better-auth by its own HTTP handler, asked by users who signed up there. */
export function betterAuth(
  name: string,
  { joins, cookieCache }: Pick<BetterAuthSettings, 'joins' | 'cookieCache'>,
): Variant {
  return {
    name,
    start: ({ databaseUrl, users, signal }) =>
      startPeer(
        {
          file: 'better-auth.ts',
          settings: {
            databaseUrl,
            baseUrl: PUBLIC_URL,
            joins,
            cookieCache,
          } satisfies BetterAuthSettings,
          signal,
        },
        async (url) => {
          const browsers = await mapUsers(users, (index) => signUp(url, index));
          return async () => {
            if (cookieCache) await Promise.all(browsers.map(renewCache));
            return browsers.map(target);
          };
        },
      ),
  };
}

async function signUp(url: string, index: number): Promise<Browser> {
  const { email, name } = createUser(index);
  const browser = new Browser(url);
  await browser.request('/api/auth/sign-up/email', {
    method: 'POST',
    headers: { 'content-type': 'application/json', origin: PUBLIC_URL },
    body: JSON.stringify({ email, name, password: `password of ${email}` }),
  });
  return browser;
}

/** Renews the session cookie, which is valid for five minutes. */
async function renewCache(browser: Browser): Promise<void> {
  browser.deleteCookies('session_data');
  await browser.request(PATH);
}

function target(browser: Browser, index: number): Target {
  return { path: PATH, headers: { cookie: browser.cookie }, expected: createUser(index).email };
}
